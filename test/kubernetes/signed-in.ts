/** Signs in to a gateway's dashboard, and calls its API. */
export async function signedIn(url: string, who: { email: string; password: string }) {
  let cookie = "";
  const ask = async (method: string, path: string, json?: object) => {
    const response = await fetch(`${url}/dashboard/api${path}`, {
      method,
      headers: { Origin: url, Cookie: cookie, "Content-Type": "application/json" },
      ...(json && { body: JSON.stringify(json) }),
    });
    cookie ||= response.headers.get("set-cookie")?.split(";")[0] ?? "";
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const { status } = await ask("POST", "/session", who);
  if (status !== 200) throw new Error(`${who.email} could not sign in: ${status}`);
  return ask;
}
