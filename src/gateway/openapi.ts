import type { TSchema } from "typebox";
import { API_PATH, DASHBOARD_ENDPOINTS, type DashboardEndpoint } from "./dashboard/endpoints.ts";
import { UNAUTHORIZED } from "./authenticate.ts";
import { LIMITS, OWN_KEYWORDS } from "../domain/schema/fields.ts";
import { jobCreate, jobPatch } from "../domain/schema/rest-job.ts";
import { ERROR_CODES, type ErrorCode } from "./error-codes.ts";
import { IDEMPOTENCY_KEY } from "./idempotency.ts";
import { errorAnswer, messageAnswer, readyAnswer } from "./schema/answers.ts";
import {
  ENDPOINTS,
  errorCodesOf,
  type EndpointDefinition,
  type OperationId,
} from "./schema/endpoints.ts";
import * as jobs from "./schema/jobs.ts";
import * as mail from "./schema/mail.ts";

/** Schemas that the document names; every use of one becomes a reference to it. */
const COMPONENTS: Record<string, TSchema> = {
  Error: errorAnswer,
  Message: messageAnswer,
  Readiness: readyAnswer,
  SendRequest: mail.sendRequest,
  SendAnswer: mail.sendAnswer,
  OtpSendRequest: mail.otpSendRequest,
  OtpSendAnswer: mail.otpSendAnswer,
  OtpVerifyRequest: mail.otpVerifyRequest,
  OtpVerifyAnswer: mail.otpVerifyAnswer,
  EmailLogEntry: mail.emailLogEntry,
  Logs: mail.logsAnswer,
  JobCreate: jobCreate,
  JobPatch: jobPatch,
  JobSummary: jobs.jobSummary,
  JobCreated: jobs.jobCreated,
  Job: jobs.job,
  Executions: jobs.executionsAnswer,
  RunAccepted: jobs.runAccepted,
};

export interface OpenApiOperation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  security: object[];
  parameters: OpenApiParameter[];
  requestBody?: { required: true; content: JsonContent };
  responses: Record<string, OpenApiResponse>;
}

export interface OpenApiParameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description?: string;
  schema: object;
}

export interface OpenApiResponse {
  description: string;
  headers?: Record<string, object>;
  content: JsonContent;
}

interface JsonContent {
  "application/json": { schema: object; examples?: Record<string, { value: unknown }> };
}

export interface OpenApiDocument {
  openapi: "3.1.1";
  info: { title: string; version: string; description: string; license: object };
  servers: object[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: Record<"schemas" | "headers" | "securitySchemes", Record<string, object>>;
}

/** The whole API as OpenAPI 3.1, from the table that also makes the router and the validators. */
export function openApiDocument(options: { version: string }): OpenApiDocument {
  const paths: OpenApiDocument["paths"] = {};
  for (const [id, endpoint] of Object.entries(ENDPOINTS) as [OperationId, EndpointDefinition][])
    (paths[endpoint.path] ??= {})[endpoint.method.toLowerCase()] = operation(id, endpoint);
  for (const [id, endpoint] of Object.entries(DASHBOARD_ENDPOINTS) as [string, DashboardEndpoint][])
    (paths[API_PATH + endpoint.path] ??= {})[endpoint.method.toLowerCase()] = dashboardOperation(
      id,
      endpoint,
    );
  return {
    openapi: "3.1.1",
    info: {
      title: "Carillon",
      version: options.version,
      description:
        "Transactional email, one-time passcodes and scheduled jobs behind one API key. Every body is JSON in UTF-8; timestamps are ISO 8601 in UTC. Every error has the same shape: `error` for people, `code` for programs.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    tags: [
      {
        name: "Email",
        description: "Send email through the account's SMTP server, and read the email log.",
      },
      { name: "OTP", description: "One-time passcodes by email." },
      { name: "Jobs", description: "Webhooks and emails on a schedule." },
      { name: "Service", description: "Health checks and this document. No API key needed." },
      {
        name: "Dashboard",
        description:
          "Routes for the dashboard's own pages, with a session cookie instead of an API key and only from the dashboard's origin. They change with the pages; programs use the other routes.",
      },
    ],
    paths,
    components: {
      schemas: Object.fromEntries(
        Object.entries(COMPONENTS).map(([name, schema]) => [name, inlined(schema, schema)]),
      ),
      headers: RATE_HEADERS,
      securitySchemes: {
        apiKey: {
          type: "apiKey",
          in: "header",
          name: "X-API-Key",
          description:
            "Begins with `svc_live_`. Created in the dashboard or with `carillon admin key create`.",
        },
        session: {
          type: "apiKey",
          in: "cookie",
          name: "__Host-carillon_session",
          description: "Set by signing in to the dashboard.",
        },
      },
    },
  };
}

function dashboardOperation(id: string, endpoint: DashboardEndpoint): OpenApiOperation {
  const { access } = endpoint;
  const errors: ErrorCode[] = [...endpoint.errors, "dependency_unavailable"];
  if (endpoint.method !== "GET") errors.push("cross_origin");
  if (access !== "open") errors.push("signed_out");
  if (access === "owner" || access === "admin") errors.push("forbidden");
  return {
    ...operation(`dashboard_${id}`, {
      ...endpoint,
      tag: "Dashboard",
      authenticated: false,
      errors,
    }),
    security: access === "open" ? [] : [{ session: [] }],
  };
}

function operation(id: string, endpoint: EndpointDefinition): OpenApiOperation {
  return {
    operationId: id,
    tags: [endpoint.tag],
    summary: endpoint.summary,
    ...(endpoint.description === undefined ? {} : { description: endpoint.description }),
    security: endpoint.authenticated ? [{ apiKey: [] }] : [],
    parameters: [...pathParameters(endpoint), ...queryParameters(endpoint), ...headers(endpoint)],
    ...(endpoint.body
      ? {
          requestBody: {
            required: true,
            content: { "application/json": { schema: inlined(endpoint.body) } },
          },
        }
      : {}),
    responses: {
      [endpoint.success.status]: {
        description: endpoint.success.description,
        ...headersOf([endpoint.authenticated && RATE, endpoint.idempotent && REPLAYED]),
        content: { "application/json": { schema: inlined(endpoint.success.schema) } },
      },
      ...(endpoint.alternative
        ? {
            [endpoint.alternative.status]: {
              description: endpoint.alternative.description,
              content: { "application/json": { schema: inlined(endpoint.alternative.schema) } },
            },
          }
        : {}),
      ...errorResponses(endpoint),
    },
  };
}

function pathParameters(endpoint: EndpointDefinition): OpenApiParameter[] {
  return Array.from(endpoint.path.matchAll(/\{(\w+)\}/g), ([, name = ""]) => ({
    name,
    in: "path",
    required: true,
    description: "Identifier.",
    schema: { type: "string", minLength: 1 },
  }));
}

function queryParameters(endpoint: EndpointDefinition): OpenApiParameter[] {
  const { properties = {} } = endpoint.query as { properties?: Record<string, object> };
  return Object.entries(properties).map(([name, schema]) => {
    const { description, ...rest } = inlined(schema) as { description?: string };
    return {
      name,
      in: "query",
      required: false,
      ...(description === undefined ? {} : { description }),
      schema: rest,
    };
  });
}

function headers({ idempotencyKey }: EndpointDefinition): OpenApiParameter[] {
  if (idempotencyKey === undefined) return [];
  return [
    {
      name: "Idempotency-Key",
      in: "header",
      required: false,
      description: idempotencyKey,
      schema: {
        type: "string",
        minLength: 1,
        maxLength: LIMITS.idempotencyKey,
        pattern: IDEMPOTENCY_KEY,
      },
    },
  ];
}

/** One response for each status; the codes that it may carry are its examples. */
function errorResponses(endpoint: EndpointDefinition): Record<string, OpenApiResponse> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of errorCodesOf(endpoint)) {
    const { status } = ERROR_CODES[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries(
    Array.from(byStatus, ([status, codes]) => [
      String(status),
      {
        description: codes.map((code) => `\`${code}\`: ${ERROR_CODES[code].meaning}`).join("\n\n"),
        ...headersOf([
          endpoint.authenticated && !BEFORE_THE_RATE.has(status) && RATE,
          (status === 429 || status === 503 || codes.includes("idempotency_in_flight")) &&
            RETRY_AFTER,
        ]),
        content: {
          "application/json": {
            schema: { $ref: "#/components/schemas/Error" },
            examples: Object.fromEntries(
              codes.map((code) => [code, { value: { error: errorText(code), code } }]),
            ),
          },
        },
      },
    ]),
  );
}

function headersOf(
  parts: (Record<string, object> | false | undefined)[],
): Pick<OpenApiResponse, "headers"> {
  const headers = Object.assign({}, ...parts) as Record<string, object>;
  return Object.keys(headers).length === 0 ? {} : { headers };
}

const RATE_HEADERS = {
  "RateLimit-Limit": rateHeader("Requests that the API key may make in a burst."),
  "RateLimit-Remaining": rateHeader("Requests of the burst that are left."),
  "RateLimit-Reset": rateHeader("Seconds until the whole burst is available again."),
};

function rateHeader(description: string): object {
  return { description, schema: { type: "integer", minimum: 0 } };
}

const RATE = Object.fromEntries(
  Object.keys(RATE_HEADERS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

/** Statuses of answers that are given before the API key, and so its rate, is known. */
const BEFORE_THE_RATE = new Set([401, 408, 417, 431]);

const RETRY_AFTER = {
  "Retry-After": { description: "Seconds to wait.", schema: { type: "integer", minimum: 1 } },
};

const REPLAYED = {
  "Idempotency-Replayed": {
    description: "`true`: this is the response to the first request with this `Idempotency-Key`.",
    schema: { type: "string", enum: ["true"] },
  },
};

function errorText(code: ErrorCode): string {
  if (code === "invalid_otp") return "invalid or expired OTP";
  if (code === "unauthorized") return UNAUTHORIZED;
  return code.replaceAll("_", " ");
}

const names = new Map<unknown, string>(
  Object.entries(COMPONENTS).map(([name, schema]) => [schema, name]),
);

/** Keywords that the document does not show. The content of `x-documented` takes its place. */
const INTERNAL = new Set<string>(OWN_KEYWORDS);

/** Plain JSON Schema: named schemas become references, except `root` itself. */
function inlined(schema: unknown, root?: unknown): object {
  return copy(schema) as object;

  function copy(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(copy);
    if (typeof value !== "object" || value === null) return value;
    const name = value === root ? undefined : names.get(value);
    if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
    const documented = (value as { "x-documented"?: object })["x-documented"] ?? {};
    return Object.fromEntries(
      [...Object.entries(value), ...Object.entries(documented)]
        .filter(([key]) => !INTERNAL.has(key))
        .map(([key, member]) => [key, copy(member)]),
    );
  }
}
