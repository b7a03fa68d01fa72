//! What is known of free slots.

use std::sync::Arc;

use sichen_core::dispatch::Candidate;
use sichen_core::ids::SessionId;
use sichen_core::name::Name;
use sichen_core::place::Offer;

use super::Room;

fn full(session: u64) -> Candidate {
    Candidate {
        session: SessionId(session),
        worker: session,
        busy: 0,
        handlers: vec!["h".to_owned()],
        slots: 1,
        held: 1,
        offer: Arc::new(Offer::default()),
    }
}

/// The reading may have been made before the slot came free, and is kept after it was told.
#[test]
fn a_slot_that_came_free_while_sessions_were_read_is_told_of() {
    let (room, pool) = (Room::default(), Name::new("default").unwrap());
    let read = || room.sessions(&pool, vec![full(1), full(2)]);
    room.reading(&pool);
    assert!(read());
    room.freed(SessionId(1), 1);
    room.reading(&pool);
    assert!(read(), "it came free before");
    room.reading(&pool);
    room.freed(SessionId(2), 1);
    assert!(!read());
    room.reading(&pool);
    assert!(read());
}
