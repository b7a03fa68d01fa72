//! What a receiver understands: the notice as it is, or a message of a chat service.
//!
//! # Invariants
//! - What a failing process wrote mentions nobody.
//! - A chat service that answers 200 and says in the body that it refused has refused.
//!
//! # Not here
//! Sending.

use serde_json::{Value, json};

/// In which form a notice is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    #[default]
    Json,
    /// An incoming webhook of Slack, or of what understands the same.
    Slack,
    /// A group robot of DingTalk.
    DingTalk,
    /// A custom bot of Feishu, or Lark.
    Feishu,
    /// A group robot of WeCom.
    WeCom,
}

/// The longest message for a chat service, in characters; what is longer is cut.
const MESSAGE_CHARS: usize = 1_500;

impl Form {
    /// The body of the request for `notice`, which is JSON.
    #[must_use]
    pub fn body(self, notice: &str) -> String {
        let text = || message(notice);
        match self {
            Form::Json => notice.to_owned(),
            Form::Slack => json!({ "text": escaped(&text()) }).to_string(),
            Form::DingTalk | Form::WeCom => {
                json!({ "msgtype": "text", "text": { "content": unaddressed(&text()) } })
                    .to_string()
            }
            Form::Feishu => {
                json!({ "msg_type": "text", "content": { "text": unmarked(&text()) } }).to_string()
            }
        }
    }

    /// Whether the body of a successful answer says so too.
    ///
    /// # Errors
    /// What it says instead.
    pub fn judge(self, answer: &[u8]) -> Result<(), String> {
        let (code, message) = match self {
            // Whoever speaks plain HTTP says it by the status.
            Form::Json | Form::Slack => return Ok(()),
            Form::DingTalk | Form::WeCom => ("errcode", "errmsg"),
            Form::Feishu => ("code", "msg"),
        };
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        match answer[code].as_i64() {
            Some(0) => Ok(()),
            Some(other) => {
                let why: String = answer[message]
                    .as_str()
                    .unwrap_or_default()
                    .chars()
                    .take(200)
                    .collect();
                Err(format!("refused with {code} {other}: {why}"))
            }
            None => Err(format!(
                "its answer has no {code}: is this the address of a robot?"
            )),
        }
    }
}

/// For people to read, of a notice in JSON.
fn message(notice: &str) -> String {
    let notice: Value = serde_json::from_str(notice).unwrap_or_default();
    let text = |key: &str| notice[key].as_str().unwrap_or_default().to_owned();
    let source = match text("source") {
        source if source.is_empty() => "sichen".to_owned(),
        source => format!("sichen {source}"),
    };
    let mut message = format!(
        "[{source}] {}\nsince {}\n{}",
        text("summary"),
        text("since"),
        text("what_to_do")
    );
    if message.chars().count() > MESSAGE_CHARS {
        message = message.chars().take(MESSAGE_CHARS).chain(['…']).collect();
    }
    message
}

/// Without what Feishu would take for a tag: `<at user_id="all">` mentions everybody, and there is no way to
/// escape it in a text.
fn unmarked(text: &str) -> String {
    text.replace('<', "\u{ff1c}").replace('>', "\u{ff1e}")
}

/// Without what DingTalk and WeCom may take for a mention: a name or a number behind `@`.
fn unaddressed(text: &str) -> String {
    unmarked(text).replace('@', "\u{ff20}")
}

/// Without what would be a mention or a link.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
