"""Long experiments whose results are kept beside them; not tests."""
