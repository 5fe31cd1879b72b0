import { DatabaseError } from "pg";
import { expect, test } from "vitest";
import { isRowFault } from "../../../src/postgres/sql-state.ts";

test.each([
  { state: "22P05", of: "a text that has no place in the database's encoding", row: true },
  { state: "23514", of: "a violated check", row: true },
  { state: "54000", of: "a value beyond the size of an index entry", row: true },
  { state: "25006", of: "a database that is read-only", row: false },
  { state: "40P01", of: "a deadlock", row: false },
  { state: "42501", of: "a grant that is missing", row: false },
  { state: "53100", of: "a full disk", row: false },
  { state: "57014", of: "a statement that took too long", row: false },
])("$state, $of: is the row at fault? $row", ({ state, row }) => {
  const error = new DatabaseError("refused", 0, "error");
  error.code = state;
  expect(isRowFault(error)).toBe(row);
  expect(isRowFault(new Error("wrapped", { cause: error }))).toBe(row);
});
