//! Whose share a batch, and what becomes of it when its writer goes.

use std::sync::Mutex;

use futures::executor::block_on;
use futures::future::{join, join_all};
use tokio::sync::Notify;

use super::{Batch, Gather, Mix, Turns};

fn batches(turns: &mut Turns<u32>, most: usize, mix: Mix) -> Vec<(String, Vec<u32>)> {
    let all = std::iter::from_fn(|| turns.take(most, mix));
    all.map(|(author, batch)| (author.to_string(), batch))
        .collect()
}

#[test]
fn authors_who_ask_in_turn_share_no_batch_and_split_none() {
    let mut turns = Turns::default();
    for n in 0..100 {
        turns.add("token red", [n]);
        turns.add("token blue", [n]);
    }
    let all = Vec::from_iter(0..100);
    assert_eq!(
        batches(&mut turns, 500, Mix::OneAuthor),
        [
            ("token red".to_owned(), all.clone()),
            ("token blue".to_owned(), all)
        ]
    );
}

#[test]
fn an_author_of_many_lets_others_have_their_turn() {
    let mut turns = Turns::default();
    turns.add("token red", 0..7);
    turns.add("token blue", [100]);
    turns.add("token green", []);
    let order = batches(&mut turns, 3, Mix::OneAuthor);
    let order = Vec::from_iter(order.iter().map(|(author, b)| (author.as_str(), b.len())));
    let red = "token red";
    assert_eq!(order, [(red, 3), ("token blue", 1), (red, 3), (red, 1)]);
}

#[test]
fn in_a_shared_batch_each_author_has_as_much_as_any_other() {
    let mut turns = Turns::default();
    turns.add("w1", 0..1_000);
    turns.add("w2", 2_000..2_003);
    turns.add("w3", [3_000]);
    let (_, batch) = turns.take(10, Mix::AllAuthors).unwrap();
    assert_eq!(batch, [0, 1, 2, 2000, 2001, 2002, 3000, 3, 4, 5]);
    // Who comes while one has hundreds waiting is in the very next batch.
    turns.add("w4", [4_000]);
    let (_, batch) = turns.take(10, Mix::AllAuthors).unwrap();
    assert!(batch.contains(&4_000), "{batch:?}");
    assert_eq!(batch.len(), 10);
}

#[test]
fn with_more_authors_than_places_each_has_its_turn_and_none_is_lost() {
    let mut turns = Turns::default();
    for n in 0..7 {
        turns.add(&format!("w{n}"), [n, n + 100]);
    }
    let all = batches(&mut turns, 3, Mix::AllAuthors);
    let sizes = Vec::from_iter(all.iter().map(|(_, batch)| batch.len()));
    assert_eq!(sizes, [3, 3, 3, 3, 2]);
    let firsts: Vec<u32> = all.into_iter().flat_map(|(_, b)| b).collect();
    let firsts = Vec::from_iter(firsts.into_iter().take(7));
    assert_eq!(firsts, [0, 1, 2, 3, 4, 5, 6]);
}

/// Writes what it is given when it may, and notes the batches.
#[derive(Default)]
struct Pen {
    may: Notify,
    wrote: Mutex<Vec<Vec<u32>>>,
}

impl Pen {
    async fn write(&self, mut batch: Batch<u32, u32>) {
        let items = batch.take();
        self.wrote.lock().unwrap().push(items.clone());
        self.may.notified().await;
        for (place, item) in items.into_iter().enumerate() {
            batch.answer(place, item + 1_000);
        }
    }
}

#[test]
fn what_comes_while_others_are_written_goes_together() {
    let (gather, pen) = (Gather::new(Mix::AllAuthors), Pen::default());
    let ask = |author: &'static str, n: u32| gather.ask(author, [n], |batch| pen.write(batch));
    let answers = block_on(async {
        // Two are under way, each by itself; three more come meanwhile.
        let all = join_all((0..5).map(|n| ask(["a", "b", "c", "d", "e"][n as usize], n)));
        let free = async {
            for _ in 0..3 {
                pen.may.notify_one();
                tokio::task::yield_now().await;
            }
        };
        join(all, free).await.0
    });
    let answers: Vec<u32> = answers.into_iter().flatten().flatten().collect();
    assert_eq!(answers, [1_000, 1_001, 1_002, 1_003, 1_004]);
    let wrote = pen.wrote.into_inner().unwrap();
    assert_eq!(wrote, [vec![0], vec![1], vec![2, 3, 4]]);
}

#[test]
fn who_is_carried_by_one_that_goes_is_told_so_and_what_nobody_awaits_is_not_begun() {
    let (gather, pen) = (Gather::new(Mix::AllAuthors), Pen::default());
    let ask = |author: &'static str, n: u32| gather.ask(author, [n], |batch| pen.write(batch));
    block_on(async {
        let mut first = Box::pin(ask("a", 0));
        let mut second = Box::pin(ask("b", 1));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        // Both writers are busy: these wait, one of them in vain.
        let mut third = Box::pin(ask("c", 2));
        let mut gone = Box::pin(ask("d", 3));
        let mut fourth = Box::pin(ask("e", 4));
        for waits in [&mut third, &mut gone, &mut fourth] {
            assert!(futures::poll!(waits).is_pending());
        }
        drop(gone);
        drop(first);
        // The third writes for itself and the fourth, and goes before it is done.
        assert!(futures::poll!(&mut third).is_pending());
        assert_eq!(pen.wrote.lock().unwrap().last().unwrap(), &[2, 4]);
        drop(third);
        assert_eq!(fourth.await, [None]);
        pen.may.notify_one();
        assert_eq!(second.await, [Some(1_001)]);
    });
}
