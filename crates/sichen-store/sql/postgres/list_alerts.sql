-- list_alerts: all of them, which are few.
select document from alert order by name
