# A mail server that keeps nothing: it prints what it takes, a line of JSON each.
import asyncio, json, ssl, sys

from aiosmtpd.smtp import SMTP, AuthResult

mode, certificate, key, user, password = sys.argv[1:6]


class Handler:
    async def handle_DATA(self, server, session, envelope):
        told = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "text": envelope.content.decode("utf-8", "replace"),
            "encrypted": mode == "tls" or session.ssl is not None,
            "known": bool(session.authenticated),
        }
        print("mail " + json.dumps(told), flush=True)
        return "250 taken"


def known(server, session, envelope, mechanism, data):
    good = data.login == user.encode() and data.password == password.encode()
    return AuthResult(success=good, handled=good)


async def main():
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    words = {"hostname": "localhost", "enable_SMTPUTF8": True}
    if user:
        words.update(auth_required=True, authenticator=known, auth_require_tls=mode == "starttls")
    if mode == "starttls":
        words.update(tls_context=context, require_starttls=True)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(Handler(), loop=loop, **words), "127.0.0.1", 0, ssl=context if mode == "tls" else None
    )
    print("ready %d" % server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
