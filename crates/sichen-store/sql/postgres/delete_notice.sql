-- delete_notice: one that was sent, or is given up.
delete from notice where id = $1
