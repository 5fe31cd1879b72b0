import { createBrowserRouter, type RouteObject } from "react-router";
import { WaitingForAll } from "./components/page.tsx";
import { InvitationPage } from "./pages/invitation.tsx";
import { NotFound, PageProblem, ShellProblem } from "./pages/route-problem.tsx";
import { Shell } from "./shell.tsx";

/** Each page is loaded when it is first shown, so that the first page does not wait for the code of the others. */
const PAGES: RouteObject[] = [
  {
    index: true,
    lazy: async () => ({
      Component: (await import("./pages/overview.tsx")).OverviewPage,
    }),
  },
  {
    path: "jobs",
    lazy: async () => ({ Component: (await import("./pages/jobs.tsx")).JobsPage }),
  },
  {
    // No job can have this id.
    path: "jobs/_new",
    lazy: async () => ({ Component: (await import("./pages/job-edit.tsx")).NewJobPage }),
  },
  {
    path: "jobs/:id",
    lazy: async () => ({ Component: (await import("./pages/job.tsx")).JobPage }),
  },
  {
    path: "jobs/:id/edit",
    lazy: async () => ({ Component: (await import("./pages/job-edit.tsx")).EditJobPage }),
  },
  {
    path: "logs",
    lazy: async () => ({ Component: (await import("./pages/logs.tsx")).LogsPage }),
  },
  {
    path: "otp",
    lazy: async () => ({ Component: (await import("./pages/otp.tsx")).OtpPage }),
  },
  {
    path: "api-keys",
    lazy: async () => ({ Component: (await import("./pages/api-keys.tsx")).ApiKeysPage }),
  },
  {
    path: "smtp",
    lazy: async () => ({ Component: (await import("./pages/smtp.tsx")).SmtpPage }),
  },
  {
    path: "signing-secret",
    lazy: async () => ({
      Component: (await import("./pages/signing-secret.tsx")).SigningSecretPage,
    }),
  },
  {
    path: "settings",
    lazy: async () => ({
      Component: (await import("./pages/settings.tsx")).SettingsPage,
    }),
  },
  {
    path: "accounts",
    lazy: async () => ({
      Component: (await import("./pages/accounts.tsx")).AccountsPage,
    }),
  },
  { path: "*", Component: NotFound },
];

export const router = createBrowserRouter(
  [
    { path: "/invitation", Component: InvitationPage },
    {
      Component: Shell,
      ErrorBoundary: ShellProblem,
      HydrateFallback: WaitingForAll,
      // Inside the shell: when one page cannot be shown, the navigation to the others stays.
      children: [
        {
          ErrorBoundary: PageProblem,
          children: PAGES,
        },
      ],
    },
  ],
  { basename: "/dashboard" },
);
