import type { Router, RouterContext } from "@koa/router";
import type { Static, TSchema } from "typebox";
import type { BodyRoom } from "./body-room.ts";
import { answerText, type ApiAnswer, type ApiRequest } from "./endpoint.ts";
import { readIdempotencyKey } from "./idempotency.ts";
import { queryObject } from "./query.ts";
import type { BodyReader } from "./request-body.ts";
import type { GatewayState } from "./request-envelope.ts";
import { validator } from "./validate.ts";

/** What the handler of an endpoint takes, by the endpoint's schemas. */
export type BodyOf<E> = E extends { body: infer S extends TSchema } ? Static<S> : undefined;
export type QueryOf<E> = E extends { query: infer S extends TSchema } ? Static<S> : undefined;

type OfAnyEndpoint = "requestId" | "params" | "query" | "body" | "json" | "idempotencyKey" | "gone";

/**
 * Puts an endpoint on the router. Whoever asks is admitted first, then what they ask is checked, and then only
 * a body of theirs is read: a stranger costs nothing. Somebody whose body was still on its way then has to be
 * admitted once more when it is there: they may have been shut out meanwhile.
 */
export function routeEndpoint<Request extends ApiRequest>(
  router: Router<GatewayState>,
  route: {
    /** As OpenAPI writes it: `/jobs/{id}`. */
    path: string;
    endpoint: { method: string; query: TSchema; body?: TSchema; idempotencyKey?: string };
    /**
     * Who asks, with what only such requests have. Throws ApiError for those who may not. `again`: the second time
     * for one request.
     */
    admit: (
      ctx: RouterContext<GatewayState>,
      again: boolean,
    ) => Promise<Omit<Request, OfAnyEndpoint>>;
    handler: (request: never) => Promise<ApiAnswer>;
    bodies: BodyReader;
    room: BodyRoom;
  },
): void {
  const { path, endpoint, admit, handler, bodies, room } = route;
  const checkQuery = validator(endpoint.query, "query parameter");
  const checkBody = endpoint.body ? validator(endpoint.body) : undefined;
  router.register(path.replaceAll(/\{(\w+)\}/g, ":$1"), [endpoint.method], async (ctx) => {
    ctx.state.route = path;
    const admitted = await admit(ctx, false);
    const whole = ctx.req.complete;
    const query = checkQuery(queryObject(ctx.querystring, endpoint.query));
    const answering = async (came: (bytes: number) => void): Promise<ApiAnswer> => {
      const json = checkBody ? await bodies.read(ctx) : undefined;
      if (json) came(json.bytes);
      const request = {
        ...(json && !whole ? await admit(ctx, true) : admitted),
        requestId: ctx.state.requestId,
        params: ctx.params,
        query,
        body: checkBody?.(json?.value),
        json,
        idempotencyKey:
          endpoint.idempotencyKey === undefined
            ? undefined
            : readIdempotencyKey(ctx.headers["idempotency-key"]?.toString()),
        gone: () => ctx.req.socket.destroyed,
      };
      // The validators have just made it what the handler takes.
      return handler(request as never);
    };
    const bytes = checkBody ? await bodies.mostBytes(ctx) : 0;
    const answer = await room.within({ account: admitted.account, bytes }, answering);
    ctx.status = answer.status;
    ctx.set({ ...answer.headers });
    ctx.type = "application/json";
    ctx.body = answerText(answer);
  });
}
