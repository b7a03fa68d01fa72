-- list_alerts: all of them, which are few.
-- scans: alert
select document from alert order by name
