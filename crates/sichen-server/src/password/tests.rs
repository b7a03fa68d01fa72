//! Claims about digests of passwords, and what a crowd of them costs.

use super::*;

const PASSWORD: &str = "correct horse battery";

#[tokio::test]
async fn a_password_is_known_by_its_digest_and_no_other_is() {
    let hasher = Hasher::default();
    let kept = hasher.digest(PASSWORD.to_owned()).await.unwrap();
    let again = hasher.digest(PASSWORD.to_owned()).await.unwrap();
    assert_ne!(kept, again, "each has a salt of its own");
    assert!(!kept.contains(PASSWORD));
    let is = async |password: &str, kept: &str| {
        let kept = Some(kept.to_owned());
        hasher.is(password.to_owned(), kept).await.unwrap()
    };
    assert!(is(PASSWORD, &kept).await && is(PASSWORD, &again).await);
    assert!(!is("correct horse batterz", &kept).await);
    assert!(!is("", &kept).await);
    assert!(!hasher.is(PASSWORD.to_owned(), None).await.unwrap());
}

#[tokio::test]
async fn a_digest_that_costs_too_much_or_makes_no_sense_is_nobody_s() {
    let hasher = Hasher::default();
    let kept = hasher.digest(PASSWORD.to_owned()).await.unwrap();
    for kept in [
        kept.replace("19456", "4000000000"),
        kept.replace(":2:", ":4000000000:"),
        kept.replace(":2:", ":0:"),
        kept.replace("argon2id", "md5"),
        kept[..kept.len() - 2].to_owned(),
        format!("{kept}:"),
        kept.replace(SCHEME, "argon2id:é"),
        String::new(),
    ] {
        let is = hasher.is(PASSWORD.to_owned(), Some(kept.clone())).await;
        assert!(!matches!(is, Ok(true)), "{kept}");
    }
}

#[tokio::test]
async fn a_crowd_is_refused_and_those_who_wait_are_served() {
    let hasher = Arc::new(Hasher::default());
    let held = hasher.room.clone().acquire_many_owned(2).await.unwrap();
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..MAX_WAITING + 5 {
        let hasher = hasher.clone();
        crowd.spawn(async move { hasher.reckon(|| Some(())).await });
    }
    let mut refused = 0;
    for _ in 0..5 {
        let answer = crowd.join_next().await.unwrap().unwrap();
        assert_eq!(answer, Err(Error::Busy));
        refused += 1;
    }
    assert_eq!(refused, 5);
    drop(held);
    while let Some(answer) = crowd.join_next().await {
        assert_eq!(answer.unwrap(), Ok(()));
    }
}
