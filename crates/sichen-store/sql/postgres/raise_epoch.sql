-- raise_epoch: after a restore, so that new tokens lie above all lost ones.
update meta set store_epoch = $1 where id = 1 and store_epoch < $1
