//! Claims about what receivers get.

use super::form::{Form, Language};
use super::signature;
use serde_json::{Value, json};

/// Computed by OpenSSL:
/// `printf '1700000000.{"id":1}' | openssl dgst -sha256 -hmac whsec-0123456789abcdef`.
#[test]
fn the_signature_is_what_others_compute() {
    let header = signature::header("whsec-0123456789abcdef", 1_700_000_000, "{\"id\":1}");
    assert_eq!(
        header,
        "t=1700000000,v1=139d89016db745c75bf654476b1450b5650c0885f51ba9dae48257ca45752295"
    );
    let other = signature::header("whsec-0123456789abcdeg", 1_700_000_000, "{\"id\":1}");
    assert_ne!(header, other);
}

fn notice() -> String {
    json!({
        "id": "1", "source": "prod", "since": "2026-11-30T21:00:00Z",
        "summary": "runs failed: a<b (exit-1: x & y)", "what_to_do": "sichen dead-letters",
    })
    .to_string()
}

#[test]
fn each_chat_service_gets_its_own_form() {
    let plain = "[sichen prod] runs failed: a<b (exit-1: x & y)\nsince 2026-11-30T21:00:00Z\n\
                 sichen dead-letters";
    let body = |form: Form| {
        serde_json::from_str::<Value>(&form.body(&notice(), Language::English)).unwrap()
    };
    assert_eq!(Form::Json.body(&notice(), Language::English), notice());
    let slack = plain.replace('&', "&amp;").replace('<', "&lt;");
    assert_eq!(body(Form::Slack), json!({ "text": slack }));
    let plain = plain.replace('<', "\u{ff1c}");
    let robot = json!({ "msgtype": "text", "text": { "content": plain } });
    assert_eq!(body(Form::DingTalk), robot);
    assert_eq!(body(Form::WeCom), robot);
    assert_eq!(
        body(Form::Feishu),
        json!({ "msg_type": "text", "content": { "text": plain } })
    );
}

/// The text of a failure is a stranger's.
#[test]
fn a_message_mentions_nobody() {
    let cause = "<at user_id=\"all\">all</at> <AT id=all></AT> <!channel> <@all> @all @13800000000";
    let notice = json!({ "summary": format!("runs failed: a ({cause})") }).to_string();
    for form in [Form::Slack, Form::DingTalk, Form::Feishu, Form::WeCom] {
        let sent = form.body(&notice, Language::English);
        assert!(
            !sent.contains('<') && sent.contains("runs failed"),
            "{sent}"
        );
        if matches!(form, Form::DingTalk | Form::WeCom) {
            assert!(!sent.contains('@'), "{sent}");
        }
    }
    // As a notice is, it is data.
    assert!(
        Form::Json
            .body(&notice, Language::English)
            .contains("<!channel>")
    );
}

#[test]
fn a_chat_service_that_refuses_with_200_has_refused() {
    assert_eq!(
        Form::DingTalk.judge(br#"{"errcode":0,"errmsg":"ok"}"#),
        Ok(())
    );
    assert_eq!(Form::Feishu.judge(br#"{"code":0,"msg":"success"}"#), Ok(()));
    assert_eq!(Form::Slack.judge(b"ok"), Ok(()));
    assert_eq!(Form::Json.judge(b""), Ok(()));
    let refused = Form::WeCom.judge(br#"{"errcode":93000,"errmsg":"invalid webhook url"}"#);
    assert_eq!(
        refused.unwrap_err(),
        "refused with errcode 93000: invalid webhook url"
    );
    assert!(Form::Feishu.judge(b"<html>").is_err());
}
