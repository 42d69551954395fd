"""Tests in a real browser; skipped where there is no chromium."""
