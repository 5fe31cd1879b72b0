import type { Router, RouterContext } from "@koa/router";
import type { Static, TSchema } from "typebox";
import type { AnswerRoom } from "./answer-room.ts";
import type { BodyRoom } from "./body-room.ts";
import { answerText, type ApiAnswer, type ApiRequest } from "./endpoint.ts";
import { tooMuchAtOnce } from "./errors.ts";
import { readIdempotencyKey } from "./idempotency.ts";
import { queryObject } from "./query.ts";
import type { BodyReader } from "./request-body.ts";
import type { GatewayState } from "./request-envelope.ts";
import { validator } from "./validate.ts";

/** What the handler of an endpoint takes, by the endpoint's schemas. */
export type BodyOf<E> = E extends { body: infer S extends TSchema } ? Static<S> : undefined;
export type QueryOf<E> = E extends { query: infer S extends TSchema } ? Static<S> : undefined;

/** What `routeEndpoint` itself puts into a request; the rest comes from `admit`. */
type OfAnyEndpoint = "requestId" | "params" | "query" | "body" | "json" | "idempotencyKey" | "gone";

/**
 * Puts an endpoint on the router. The caller is admitted first, then the query is checked, and only then the body
 * is read: a stranger costs nothing. If the body had not arrived when the caller was admitted, the caller is admitted
 * once more when it has: the right to call may have ended meanwhile.
 */
export function routeEndpoint<Request extends ApiRequest>(
  router: Router<GatewayState>,
  route: {
    /** As OpenAPI writes it: `/jobs/{id}`. */
    path: string;
    endpoint: { method: string; query: TSchema; body?: TSchema; idempotencyKey?: string };
    /**
     * Says who calls, and what else requests of this kind have. Throws ApiError for those who may not call. `again`:
     * the second time for one request.
     */
    admit: (
      ctx: RouterContext<GatewayState>,
      again: boolean,
    ) => Promise<Omit<Request, OfAnyEndpoint>>;
    handler: (request: never) => Promise<ApiAnswer>;
    bodies: BodyReader;
    room: BodyRoom;
    answers: AnswerRoom;
  },
): void {
  const { path, endpoint, admit, handler, bodies, room, answers } = route;
  const checkQuery = validator(endpoint.query, "query parameter");
  const checkBody = endpoint.body ? validator(endpoint.body) : undefined;
  router.register(path.replaceAll(/\{(\w+)\}/g, ":$1"), [endpoint.method], async (ctx) => {
    ctx.state.route = path;
    const admitted = await admit(ctx, false);
    ctx.state.id = ctx.params["id"];
    const hadArrived = ctx.req.complete;
    const query = checkQuery(queryObject(ctx.querystring, endpoint.query));
    const answering = async (came: (bytes: number) => void): Promise<ApiAnswer> => {
      const json = checkBody ? await bodies.read(ctx) : undefined;
      if (json) came(json.bytes);
      const request = {
        ...(json && !hadArrived ? await admit(ctx, true) : admitted),
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
      // The validators have just checked that it is what the handler takes.
      return handler(request as never);
    };
    const bytes = checkBody ? await bodies.mostBytes(ctx) : 0;
    const answer = await room.within({ account: admitted.account, bytes }, answering);
    const content = Buffer.isBuffer(answer.body) ? answer.body : answerText(answer);
    if (!answer.shared) holdUntilRead(ctx, admitted.account, Buffer.byteLength(content));
    ctx.status = answer.status;
    ctx.set({ ...answer.headers });
    ctx.type = "application/json";
    ctx.body = content;
  });

  function holdUntilRead(ctx: RouterContext, account: string, bytes: number): void {
    // The client has gone away.
    if (ctx.res.closed) return;
    const leave = answers.take({ account, bytes });
    if (leave) ctx.res.once("close", leave);
    else if (endpoint.method === "GET")
      throw tooMuchAtOnce(
        "too many answers have not been read: read them, and ask for fewer at a time",
      );
    // What was asked for is done: no answer is better than one that says otherwise.
    else ctx.req.socket.destroy();
  }
}
