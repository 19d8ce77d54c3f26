"""What the loader is made of: `collate`, `fetch`, `worker` (the child's side), `pool` (the parent's side), `random`."""
