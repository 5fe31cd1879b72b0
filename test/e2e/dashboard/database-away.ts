/** The gateway's answer without its database. */
export const DATABASE_AWAY = {
  status: 503,
  json: { error: "the database is away", code: "dependency_unavailable" },
};
