import { expect, test } from "vitest";
import { ApiError } from "../../../src/kubernetes/api-error.ts";

test.each([
  { code: 401, barred: true },
  { code: 403, barred: true },
  // Of a kind that is not served.
  { code: 404, barred: true },
  { code: 409, barred: false },
  { code: 422, barred: false },
])("a $code says whether the service may do at all what it was refused: $barred", (row) => {
  const { barred, message } = new ApiError(row.code, undefined, "get /things/a");
  expect({ barred, message }).toEqual({
    barred: row.barred,
    message: `get /things/a: ${row.code}`,
  });
});
