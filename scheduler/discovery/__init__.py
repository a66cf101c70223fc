"""How a client finds the scheduler of a state folder, or starts one."""
