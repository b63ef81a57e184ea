"""The sample headers that the static checks of the C runtime use."""

from tools import sample_model


def test_stored_headers_are_what_the_generator_writes_today() -> None:
    stored = {
        path.relative_to(sample_model.FOLDER).as_posix(): path.read_text()
        for path in sample_model.FOLDER.rglob("model.h")
    }
    assert stored == sample_model.headers(), "run tools/sample_model.py"
