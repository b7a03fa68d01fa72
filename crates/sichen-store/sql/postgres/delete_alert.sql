-- delete_alert: an alert that is no more.
delete from alert where name = $1
