import pytest

pytest.register_assert_rewrite("waterclock.testing.conformance")
