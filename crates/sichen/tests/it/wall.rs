//! The wall clock of a database, set by a test: what `clock_timestamp()` answers to the scheduler's sessions.
//!
//! # Invariants
//! - All sessions see one clock, and a change at once.
//! - It is a function that is found before PostgreSQL's own. What PostgreSQL itself does by the clock (statement
//!   timeouts, its log) is not touched, as it would be where a machine's clock is set.

use jiff::{SignedDuration, Timestamp};

use crate::database::{Database, Session};

/// The clock of one database.
pub struct Wall {
    session: Session,
}

impl Wall {
    /// Of a database in which there is nothing yet: it says `at`, and goes on.
    pub fn of(database: &Database, at: &str) -> Self {
        let session = database.connect();
        session.execute(
            "create schema wall; \
             create table wall.clock (base bigint not null, since timestamptz not null, pace bigint not null); \
             insert into wall.clock values (0, pg_catalog.clock_timestamp(), 1); \
             create function wall.clock_timestamp() returns timestamptz language sql volatile as \
             $$select to_timestamp(0) + base * interval '1 microsecond' \
               + pace * (pg_catalog.clock_timestamp() - since) from wall.clock$$; \
             alter database postgres set search_path = public, wall, pg_catalog",
        );
        let wall = Self { session };
        wall.goes_on_from(at);
        wall
    }

    /// It is set to `at`, and goes on.
    pub fn goes_on_from(&self, at: &str) {
        self.set(at.parse().unwrap(), 1);
    }

    /// It is set to `at`, and stands still.
    pub fn stands_at(&self, at: &str) {
        self.set(at.parse().unwrap(), 0);
    }

    /// It steps.
    pub fn steps(&self, by: SignedDuration) {
        self.set(self.now() + by, 1);
    }

    /// If it does not say as much yet, it is set to `at`.
    pub fn is_at_least(&self, at: &str) {
        let at: Timestamp = at.parse().unwrap();
        if self.now() < at {
            self.set(at, 1);
        }
    }

    /// What it says.
    pub fn now(&self) -> Timestamp {
        let query = "select extract(epoch from wall.clock_timestamp()) * 1000000";
        Timestamp::from_microsecond(self.session.number(query)).unwrap()
    }

    /// Whether it says as much.
    pub fn has_reached(&self, at: &str) -> bool {
        self.now() >= at.parse().unwrap()
    }

    fn set(&self, at: Timestamp, pace: u8) {
        let base = at.as_microsecond();
        self.session.execute(&format!(
            "update wall.clock set base = {base}, since = pg_catalog.clock_timestamp(), pace = {pace}"
        ));
    }
}
