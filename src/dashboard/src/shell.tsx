import {
  Anchor,
  AppShell,
  Badge,
  Burger,
  Button,
  Center,
  Group,
  Menu,
  NavLink,
  Text,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import {
  IconBell,
  IconBuilding,
  IconCalendarTime,
  IconChevronDown,
  IconKey,
  IconLayoutDashboard,
  IconListDetails,
  IconLogout,
  IconMail,
  IconPassword,
  IconSettings,
  IconSignature,
} from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link, Outlet, useLocation, useNavigation } from "react-router";
import { call, isSignedOut } from "./api.ts";
import type { Session } from "./api-types.ts";
import { ColorScheme } from "./components/color-scheme.tsx";
import { OnTheWay } from "./components/on-the-way.tsx";
import { WaitingForAll } from "./components/page.tsx";
import { Problem, sentence } from "./components/problem.tsx";
import { showExactTimes, useExactTimes } from "./exact-times.ts";
import { NotAllowed } from "./pages/route-problem.tsx";
import { SignInPage } from "./pages/sign-in.tsx";
import { useSessionQuery, useSignedIn } from "./session.ts";
import { OVERLAYS } from "./theme.ts";

interface Place {
  to: string;
  label: string;
  icon: typeof IconKey;
  who?: "owner" | "admin";
}

const PLACES: readonly Place[] = [
  { to: "/", label: "Overview", icon: IconLayoutDashboard },
  { to: "/jobs", label: "Jobs", icon: IconCalendarTime },
  { to: "/logs", label: "Email log", icon: IconListDetails },
  { to: "/otp", label: "Passcodes", icon: IconPassword },
  { to: "/api-keys", label: "API keys", icon: IconKey },
  { to: "/smtp", label: "SMTP", icon: IconMail, who: "owner" },
  { to: "/signing-secret", label: "Webhook signing", icon: IconSignature, who: "owner" },
  { to: "/settings", label: "Settings", icon: IconSettings },
  { to: "/accounts", label: "Accounts", icon: IconBuilding, who: "admin" },
];

/** What is around every page: the signed-in user and the navigation. */
export function Shell() {
  const session = useSessionQuery();
  if (session.isPending) return <WaitingForAll />;
  // Only if there is no session yet: one that could not be refreshed is still used.
  if (session.error && session.data === undefined)
    return (
      <Center h="100vh" p="md">
        <Problem error={session.error} retry={() => session.refetch()} />
      </Center>
    );
  // By user: nothing that one user has begun stays for the next one.
  return session.data ? (
    <SignedIn key={session.data.user.id} session={session.data} />
  ) : (
    <SignInPage />
  );
}

function SignedIn({ session }: { session: Session }) {
  const [opened, { toggle, close }] = useDisclosure();
  const { pathname } = useLocation();
  const navigation = useNavigation();
  const { user, account } = session;
  const isAt = (to: string) => (to === "/" ? pathname === "/" : pathname.startsWith(to));
  const places = PLACES.filter(
    ({ who }) =>
      who === undefined ||
      (who === "owner" && user.role === "owner") ||
      (who === "admin" && user.admin),
  );
  // A link may lead to a page that this user may not use: it says so instead of offering what the server refuses.
  const here = PLACES.find(({ to }) => isAt(to));
  const notAllowed = here !== undefined && !places.includes(here);
  useEffect(() => {
    close();
    window.scrollTo(0, 0);
  }, [pathname, close]);
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 232, breakpoint: "sm", collapsed: { mobile: !opened } }}
      padding="md"
    >
      <Button component="a" href="#content" className="skip" size="xs">
        Skip to the content
      </Button>
      <AppShell.Header px="md" className="panel">
        {navigation.state !== "idle" && <OnTheWay />}
        <Group h="100%" justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="xs" wrap="nowrap" style={{ minWidth: 0 }}>
            <Burger
              opened={opened}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={opened ? "Close the navigation" : "Open the navigation"}
            />
            <Anchor component={Link} to="/" underline="never" c="inherit" miw={0}>
              <Group gap={8} wrap="nowrap">
                <IconBell size={22} style={{ flex: "none" }} aria-hidden />
                <Text fw={700} className="clip">
                  Carillon
                </Text>
              </Group>
            </Anchor>
            <Badge variant="light" color="gray" tt="none" className="clip" visibleFrom="xs">
              {account.name}
            </Badge>
          </Group>
          <Group gap="xs" wrap="nowrap" style={{ minWidth: 0 }}>
            <ColorScheme />
            <UserMenu session={session} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="sm" className={opened ? "panel" : "panel closed"} aria-label="Main">
        {places.map(({ to, label, icon: Icon }) => (
          <NavLink
            key={to}
            component={Link}
            to={to}
            label={label}
            leftSection={<Icon size={18} aria-hidden />}
            active={isAt(to)}
            aria-current={isAt(to) ? "page" : undefined}
          />
        ))}
        <Text size="xs" c="dimmed" mt="auto" px="xs" py={4}>
          Carillon {session.installation.version} ·{" "}
          <Anchor href="/docs" size="xs" underline="always" display="inline-block">
            API documentation
          </Anchor>
        </Text>
      </AppShell.Navbar>
      {/* An open navigation lies over the content on a phone: whoever goes on behind its end sees where they are. */}
      <AppShell.Main id="content" tabIndex={-1} onFocus={close}>
        <div style={{ maxWidth: 1180, margin: "0 auto" }}>
          {notAllowed ? <NotAllowed title={here.label} who={here.who} /> : <Outlet />}
        </div>
        <div id={OVERLAYS} />
      </AppShell.Main>
    </AppShell>
  );
}

function UserMenu({ session }: { session: Session }) {
  const signedIn = useSignedIn();
  const exact = useExactTimes();
  const signOut = useMutation({
    mutationFn: endSession,
    onMutate: () => {
      notifications.hide(NOT_SIGNED_OUT);
    },
    onSuccess: () => {
      signedIn(null);
    },
    onError: (error) => {
      notifications.show({
        id: NOT_SIGNED_OUT,
        color: "red.9",
        title: "You may still be signed in",
        message: sentence(error.message),
        autoClose: false,
      });
    },
  });
  // When the menu goes away, the user is signed out after all: the message would be wrong.
  useEffect(
    () => () => {
      notifications.hide(NOT_SIGNED_OUT);
    },
    [],
  );
  const name = session.user.email.split("@")[0] ?? "";
  return (
    <Menu position="bottom-end" width={240}>
      {signOut.isPending && <OnTheWay />}
      <Menu.Target>
        <Button
          variant="default"
          rightSection={<IconChevronDown size={14} aria-hidden />}
          aria-label={`${name}: your user`}
          px="sm"
          miw={0}
          maw={220}
        >
          <span className="clip">{name}</span>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label className="break" c="dimmed">
          {session.user.email}
          <br />
          {session.user.role} of {session.account.name}
        </Menu.Label>
        <Menu.Item component={Link} to="/settings" leftSection={<IconSettings size={16} />}>
          Settings
        </Menu.Item>
        <Menu.CheckboxItem checked={exact} onChange={showExactTimes}>
          Exact times
        </Menu.CheckboxItem>
        <Menu.Item
          leftSection={<IconLogout size={16} />}
          onClick={() => {
            signOut.mutate();
          }}
        >
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

const NOT_SIGNED_OUT = "not-signed-out";

/** Rejects while the session is still open, or may be. */
async function endSession(): Promise<void> {
  try {
    await call("DELETE", "/session");
  } catch (error) {
    // It was over already.
    if (!isSignedOut(error)) throw error;
  }
}
