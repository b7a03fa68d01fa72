//! Claims about who finds a place.

use super::*;

#[test]
fn one_token_takes_no_more_than_its_places_and_gives_them_back() {
    let room = Arc::new(Room::default());
    let (one, other): (Arc<str>, Arc<str>) = ("token one".into(), "token other".into());
    let mut places = Vec::new();
    for _ in 0..MAX_WATCHERS_OF_TOKEN {
        places.push(room.place(Some(&one)).unwrap());
    }
    assert!(room.place(Some(&one)).unwrap_err().contains("this token"));
    let others = room.place(Some(&other)).unwrap();
    places.pop();
    places.push(room.place(Some(&one)).unwrap());
    while let Ok(place) = room.place(None) {
        places.push(place);
    }
    assert_eq!(places.len() + 1, MAX_WATCHERS);
    assert!(room.place(Some(&other)).unwrap_err().contains("this node"));
    drop((places, others));
    let taken = room.lock();
    assert_eq!((taken.all, taken.by.len()), (0, 0));
}
