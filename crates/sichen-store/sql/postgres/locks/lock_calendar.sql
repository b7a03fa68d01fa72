-- lock_calendar: a calendar, against others that change it or use it anew.
select namespace from calendar where namespace = $1 and name = $2 for update
