-- limit_hold: an attempt ended and nobody has confirmed it: what it held counts until its tree is surely gone.
update hold set until = ?5 where run_id = ?1 and no = ?2 and token = ?3 and capacity = ?4
