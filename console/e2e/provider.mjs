// A real provider of OpenID Connect on loopback, with its own pages to log in on.
import Provider from "oidc-provider";

/** Listens on `port` for the console at `console`; whoever logs in is in the groups that `groups` says. */
export async function startProvider(port, console, secret, groups) {
  const issuer = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "sichen",
        client_secret: secret,
        redirect_uris: [`${console}/api/v1/login/oidc/callback`],
        response_types: ["code"],
        grant_types: ["authorization_code"],
      },
    ],
    scopes: ["openid", "profile", "groups"],
    claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
    pkce: { required: () => true },
    cookies: { keys: [secret] },
    features: { devInteractions: { enabled: true } },
    findAccount: (_, id) => ({
      accountId: id,
      claims: async () => ({ sub: id, preferred_username: id, groups: groups(id) }),
    }),
  });
  const server = await new Promise((resolve) => {
    const listening = provider.listen(port, "127.0.0.1", () => resolve(listening));
  });
  return { issuer, stop: () => server.close() };
}
