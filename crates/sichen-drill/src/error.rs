//! Why a drill could not be carried out. A drill that was carried out and failed is no error.

/// What stood in the way.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the user asked for can't be had.
    #[error("SC7050: {0}")]
    Refused(String),
    /// The cluster, or a program that the drill needs, did not do what it must for the drill to mean
    /// anything.
    #[error("SC7051: the drill could not be carried out: {0}")]
    Stage(String),
    /// A folder of evidence can't be written or read.
    #[error("SC7052: {path}: {reason}")]
    Folder {
        /// Where.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Two records differ in more than one condition.
    #[error("SC7053: {0}")]
    Incomparable(String),
}

impl Error {
    pub(crate) fn stage(what: &str, why: impl std::fmt::Display) -> Self {
        Error::Stage(format!("{what}: {why}"))
    }

    pub(crate) fn folder(path: &std::path::Path, reason: impl std::fmt::Display) -> Self {
        Error::Folder {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }
}
