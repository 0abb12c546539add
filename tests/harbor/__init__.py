"""Harbor itself, with one of its harnesses, on one task: `make test-harbor` installs it and runs these tests."""
