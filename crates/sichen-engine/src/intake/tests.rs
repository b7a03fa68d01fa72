//! Whose runs share a transaction.

use super::Turns;

#[test]
fn authors_who_ask_in_turn_share_no_batch_and_split_none() {
    let mut turns = Turns::default();
    for n in 0..100 {
        turns.add("token red", [n]);
        turns.add("token blue", [n]);
    }
    let all = Vec::from_iter(0..100);
    assert_eq!(turns.take(500), Some(("token red".to_owned(), all.clone())));
    assert_eq!(turns.take(500), Some(("token blue".to_owned(), all)));
    assert_eq!(turns.take(500), None);
}

#[test]
fn an_author_of_many_runs_lets_others_have_their_turn() {
    let mut turns = Turns::default();
    turns.add("token red", 0..7);
    turns.add("token blue", [100]);
    turns.add("token green", []);
    let order = std::iter::from_fn(|| turns.take(3));
    let order = Vec::from_iter(order.map(|(author, batch)| (author, batch.len())));
    let order = Vec::from_iter(order.iter().map(|(author, n)| (author.as_str(), *n)));
    let red = "token red";
    assert_eq!(order, [(red, 3), ("token blue", 1), (red, 3), (red, 1)]);
}
