//! The calendar, counted year by year and day by day.
//!
//! # Not here
//! Time of day, zones.

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// Days since 1970-01-01.
    pub number: i64,
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
}

impl Date {
    /// The date so many days after 1970-01-01.
    #[must_use]
    pub fn of(number: i64) -> Date {
        let mut year = 1970;
        let mut first = 0;
        while first > number {
            year -= 1;
            first -= year_days(year);
        }
        while first + year_days(year) <= number {
            first += year_days(year);
            year += 1;
        }
        let mut month = 1;
        while first + month_days(year, month) <= number {
            first += month_days(year, month);
            month += 1;
        }
        Date {
            number,
            year,
            month,
            day: number - first + 1,
        }
    }

    /// The day after.
    #[must_use]
    pub fn next(self) -> Date {
        let number = self.number + 1;
        if self.day < month_days(self.year, self.month) {
            let day = self.day + 1;
            return Date {
                number,
                day,
                ..self
            };
        }
        let (year, month) = if self.month == 12 {
            (self.year + 1, 1)
        } else {
            (self.year, self.month + 1)
        };
        Date {
            number,
            year,
            month,
            day: 1,
        }
    }

    /// 0 = Sunday to 6 = Saturday. 1970-01-01 was a Thursday.
    #[must_use]
    pub fn weekday(self) -> i64 {
        (self.number + 4).rem_euclid(7)
    }

    /// Days of its month.
    #[must_use]
    pub fn month_days(self) -> i64 {
        month_days(self.year, self.month)
    }
}

pub(crate) fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn year_days(year: i64) -> i64 {
    365 + i64::from(leap(year))
}

pub(crate) fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
