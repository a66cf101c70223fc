"""What a person sends: job files, sweeps, notebooks, and the amounts they write."""
