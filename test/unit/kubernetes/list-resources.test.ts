import { expect, test } from "vitest";
import { AnswerTooLarge } from "../../../src/kubernetes/api-error.ts";
import type { ApiCall } from "../../../src/kubernetes/client.ts";
import { listResources } from "../../../src/kubernetes/list-resources.ts";

/** An API server whose resources have the sizes `sizes`, in bytes, and are named by their place. */
function world() {
  const server = { sizes: [] as readonly number[], pages: [] as number[], thrownAway: 0 };
  const client = {
    call: async <T>({ query = {}, mostBytes = Infinity, onSize }: ApiCall): Promise<T> => {
      const from = Number(query["continue"] ?? 0);
      const end = from + Number(query["limit"]);
      const sizes = server.sizes.slice(from, end);
      const bytes = sizes.reduce((sum, size) => sum + size, 100);
      if (bytes > mostBytes) {
        server.thrownAway += 1;
        throw new AnswerTooLarge();
      }
      onSize?.(bytes);
      server.pages.push(sizes.length);
      const items = sizes.map((_, index) => ({ metadata: { name: String(from + index) } }));
      const more = end < server.sizes.length && { continue: String(end) };
      return { metadata: { resourceVersion: "1", ...more }, items } as T;
    },
  };
  /** Lists so many resources of these sizes; returns the page sizes. */
  const list = async (count: number, size: (index: number) => number): Promise<number[]> => {
    server.sizes = Array.from({ length: count }, (_, index) => size(index));
    server.pages = [];
    const names: string[] = [];
    let next: string | undefined;
    do {
      const page = await listResources(client, undefined, { limit: 500, continue: next });
      names.push(...page.items.map(({ metadata }) => metadata.name));
      next = page.metadata.continue;
    } while (next !== undefined);
    expect(names).toEqual(server.sizes.map((_, index) => String(index)));
    return server.pages;
  };
  return { server, client, list };
}

test.each([
  { size: 2_000, thrownAway: 0, pages: 20 },
  { size: 5_000, thrownAway: 1, pages: 36 },
  { size: 30_000, thrownAway: 1, pages: 200 },
  { size: 250_000, thrownAway: 2, pages: 1_700 },
  { size: 1_500_000, thrownAway: 3, pages: 10_000 },
])("resources of $size bytes: a page that has no room is asked for at first only", async (of) => {
  const { server, list } = world();
  const pages = await list(10_000, () => of.size);
  expect(pages.length).toBeLessThanOrEqual(of.pages);
  await list(100, () => of.size);
  expect(server.thrownAway).toBe(of.thrownAway);
});

test("neither the few at the end of a list nor a look at one make the next page too large", async () => {
  const { server, client, list } = world();
  const full = (await list(10_000, () => 10_000)).at(-2) ?? 0;
  const { thrownAway } = server;
  expect(await list(full + 10, (index) => (index < full ? 10_000 : 100))).toEqual([full, 10]);
  server.sizes = [100, 100];
  await listResources(client, undefined, { limit: 1 });
  await list(1_000, () => 10_000);
  expect(server.thrownAway).toBe(thrownAway);
});

test("where resources are small again, pages have as many as are asked for", async () => {
  const { server, list } = world();
  await list(20, () => 1_500_000);
  const { thrownAway } = server;
  expect(await list(3_000, () => 1_000)).toContain(500);
  expect((await list(1_000, () => 1_000))[0]).toBe(500);
  expect(server.thrownAway).toBe(thrownAway);
});

test("one that no page has room for is read alone", async () => {
  const { server, list } = world();
  const pages = await list(3_000, (index) => (index === 1_234 ? 3_000_000 : 1_000));
  expect(pages).toContain(1);
  expect(pages.at(-1)).toBeGreaterThan(100);
  expect(server.thrownAway).toBeLessThan(10);
});
