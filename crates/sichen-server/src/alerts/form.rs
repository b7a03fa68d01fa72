//! What a receiver understands: the notice as it is, or a message of a chat service.
//!
//! # Invariants
//! - What a failing process wrote mentions nobody.
//! - A chat service that answers 200 and says in the body that it refused has refused.
//!
//! # Not here
//! Sending.

use serde_json::{Value, json};
pub use sichen_core::alert::notice::Language;

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
    /// The body of the request for `notice`, which is JSON; what is for people, in their language.
    #[must_use]
    pub fn body(self, notice: &str, language: Language) -> String {
        let text = || Told::of(notice, language).message();
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

/// What a notice says to people.
#[derive(Debug)]
pub(super) struct Told {
    language: Language,
    notice: Value,
}

impl Told {
    /// What `notice`, which is JSON, says in this language.
    pub(super) fn of(notice: &str, language: Language) -> Self {
        let notice = serde_json::from_str(notice).unwrap_or_default();
        Self { language, notice }
    }

    fn text_of(&self, key: &str) -> &str {
        self.notice[key].as_str().unwrap_or_default()
    }

    fn summary(&self) -> &str {
        let key = match self.language {
            Language::English => "summary",
            Language::Chinese => "summary_zh",
        };
        match self.text_of(key) {
            // Written by an older server.
            "" => self.text_of("summary"),
            summary => summary,
        }
    }

    /// Of which cluster, and what.
    pub(super) fn headline(&self) -> String {
        match self.text_of("source") {
            "" => format!("[sichen] {}", self.summary()),
            source => format!("[sichen {source}] {}", self.summary()),
        }
    }

    fn since(&self) -> &'static str {
        match self.language {
            Language::English => "since",
            Language::Chinese => "起始",
        }
    }

    /// A message of a chat.
    fn message(&self) -> String {
        let (since, at) = (self.since(), self.text_of("since"));
        let what_to_do = self.text_of("what_to_do");
        let mut message = format!("{}\n{since} {at}\n{what_to_do}", self.headline());
        if message.chars().count() > MESSAGE_CHARS {
            message = message.chars().take(MESSAGE_CHARS).chain(['…']).collect();
        }
        message
    }

    /// The text of a mail: all that is named.
    pub(super) fn text(&self) -> String {
        let (what, more, rule, id) = match self.language {
            Language::English => ("what to do", "and more", "rule", "notice"),
            Language::Chinese => ("怎么办", "还有更多", "规则", "通知"),
        };
        let mut text = format!("{}\n\n", self.headline());
        let subjects = self.notice["subjects"].as_array();
        for subject in subjects.into_iter().flatten() {
            let part = |key: &str| subject[key].as_str().unwrap_or_default();
            let cause = part("cause").replace(|c: char| c.is_control(), " ");
            text.push_str(&format!(
                "- {} ({} {}) {cause}\n",
                part("subject"),
                self.since(),
                part("since")
            ));
        }
        if self.notice["more"] == true {
            text.push_str(&format!("- {more}\n"));
        }
        text.push_str(&format!(
            "\n{}: {}\n{rule}: {}\n{what}: {}\n{id}: {}\n",
            self.since(),
            self.text_of("since"),
            self.text_of("rule"),
            self.text_of("what_to_do"),
            self.text_of("id"),
        ));
        text
    }
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
