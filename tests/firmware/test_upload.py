"""Uploads: over bad lines, cut off anywhere, refused with a reason; and the store below them."""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Callable, Iterator

import pytest

from stepmap_hil.wire import dialect
from stepmap_hil.wire.link import LinkError
from stepmap_hil.wire.upload import CHUNK, Report, Settings, authentication, upload
from tests.firmware.attacks import forged
from tests.firmware.link_board import BANK, JOURNAL, KEY, MODEL, Board, KeyOfBoard, Stamps, blob, frame, linked

QUICK = Settings(retry=0.02, patience=2.0)
SCHEDULE = blob(32 * 1024, seed=1)
OLD = blob(24 * 1024, seed=2)
NEVER = 10**6
TIME = Stamps(2**46)


@pytest.fixture
def board() -> Iterator[Board]:
    with Board() as made:
        yield made


def put(board: Board, schedule: bytes, settings: Settings = QUICK, **faults: Callable[[bytes], list[bytes]]) -> Report:
    link, _ = linked(board, beat=0.01, **faults)
    return upload(link, schedule, KEY, settings=settings)


# Lines


def test_a_schedule_arrives_and_stays(board: Board) -> None:
    steps: list[tuple[int, int]] = []
    link, line = linked(board)
    report = upload(link, SCHEDULE, KEY, progress=lambda done, total: steps.append((done, total)))
    assert board.schedule() == SCHEDULE
    assert report.digest == hashlib.sha256(SCHEDULE).digest()
    assert (report.resumed_at, report.chunks, report.repeated) == (0, 171, 0)
    assert steps == [(min(CHUNK * i, 32768), 32768) for i in range(172)]
    assert board.facts().activations == 1
    line.heartbeat()
    assert link.receive("HEARTBEAT", timeout=1).schedule == report.digest[:8]
    for _ in range(3):
        board.reset()
        assert board.schedule() == SCHEDULE


class Trouble:
    """Drops, doubles, damages and holds back some frames; what is held back comes after the next."""

    def __init__(self, seed: int, share: float) -> None:
        self.random = random.Random(seed)
        self.share = share
        self.held: list[bytes] = []
        self.done = dict.fromkeys(("dropped", "doubled", "damaged", "reordered"), 0)

    def __call__(self, part: bytes) -> list[bytes]:
        late, self.held = self.held, []
        what = self.random.choices([*self.done, "nothing"], [self.share] * 4 + [1 - 4 * self.share])[0]
        if what == "nothing":
            return [part, *late]
        self.done[what] += 1
        if what == "dropped":
            return late
        if what == "doubled":
            return [part, part, *late]
        if what == "reordered":
            self.held = [part]
            return late
        wrong = bytearray(part)
        wrong[self.random.randrange(len(wrong))] ^= self.random.randrange(1, 256)
        return [bytes(wrong), *late]


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize(("share", "seeds"), [(0.01, range(4)), (0.05, range(2))])
def test_bad_lines_only_take_longer(board: Board, window: int, share: float, seeds: range) -> None:
    for seed in seeds:
        there, back = Trouble(seed, share), Trouble(seed + 100, share)
        schedule = blob(32 * 1024, seed=10 + seed)
        report = put(board, schedule, Settings(window=window, retry=0.02, patience=5), to=there, back=back)
        assert board.schedule() == schedule
        assert hashlib.sha256(board.schedule()).digest() == report.digest
        assert all(there.done.values())
        assert report.repeated > 0
        board.reset()
        assert board.schedule() == schedule


class EndedError(Exception):
    """The host was ended."""


def test_a_host_ended_at_any_chunk_goes_on_there(board: Board) -> None:
    schedule = blob(40 * CHUNK + 5, seed=3)
    for last in range(0, 41):
        put(board, OLD)
        left = iter(range(last + 2))  # status, begin, and chunks

        def end(part: bytes, left: Iterator[int] = left) -> list[bytes]:
            if next(left, None) is None:
                raise EndedError
            return [part]

        with pytest.raises(EndedError):
            put(board, schedule, to=end)
        assert board.schedule() == OLD
        report = put(board, schedule)
        assert (report.resumed_at, report.repeated) == (last * CHUNK, 0)
        assert board.schedule() == schedule


def test_a_board_reset_in_mid_upload_starts_again(board: Board) -> None:
    seen = 0

    def reset(part: bytes) -> list[bytes]:
        nonlocal seen
        seen += 1
        if seen == 60:
            board.reset()
            line.heartbeat()
        return [part]

    link, line = linked(board, to=reset)
    report = upload(link, SCHEDULE, KEY, settings=QUICK)
    assert board.schedule() == SCHEDULE
    assert report.chunks > 171


@pytest.mark.parametrize("size", range(17, 26))
def test_schedules_of_any_size(board: Board, size: int) -> None:
    put(board, blob(size))
    assert board.schedule() == blob(size)
    assert board.memory()[: size + 16] == blob(size) + b"\xff" * 16  # what follows it stays erased


def test_the_same_schedule_again_costs_nothing(board: Board) -> None:
    put(board, SCHEDULE)
    before = board.facts()
    assert put(board, SCHEDULE).chunks == 0
    assert board.facts().operations == before.operations
    assert board.facts().activations == before.activations


@pytest.mark.parametrize("shift", range(8))
def test_a_schedule_with_frames_in_it_is_uploaded(board: Board, shift: int) -> None:
    """A header inside a frame ends that frame; so no chunk holds one."""
    inside = frame("COMMAND", command=1) + forged(bytes(5), "PING") + bytes(1 + shift)
    schedule = blob(1024)[:-513] + (inside * 20)[:512] + b"\x11"
    put(board, schedule)
    assert board.schedule() == schedule
    assert board.facts().commands == 0


def test_a_late_or_lost_answer_to_commit_is_no_harm(board: Board) -> None:
    link, line = linked(board)
    upload(link, SCHEDULE, KEY)
    for _ in range(3):
        line.write(frame("UPLOAD_COMMIT", digest=hashlib.sha256(SCHEDULE).digest()[:8], timestamp=next(TIME)))
        assert link.receive("UPLOAD_STATUS", timeout=1).result == 0
    assert board.facts().activations == 1


# Refusals


def test_nothing_is_written_unless_idle(board: Board) -> None:
    link, _ = linked(board)
    put(board, OLD)
    board.idle(False)
    before = board.facts().operations
    with pytest.raises(LinkError, match="hint: Stop it first"):
        upload(link, SCHEDULE, KEY, settings=QUICK)
    assert board.facts().operations == before
    assert board.schedule() == OLD


def test_a_chunk_is_not_written_while_the_board_runs(board: Board) -> None:
    """One that comes after the board began to run: neither flash nor the place to go on at move."""

    def chunks_only(part: bytes) -> list[bytes]:
        chunk = dialect.frame_id(part) == dialect.value("MAVLINK_MSG_ID_UPLOAD_CHUNK")
        if chunk and dialect.decode(part).offset >= 4096:
            board.idle(False)
        return [part]

    with pytest.raises(LinkError, match="hint: Stop it first"):
        put(board, SCHEDULE, to=chunks_only)
    where, banks = next_offset(board), board.memory()[: 2 * BANK]
    assert 4096 <= where < len(SCHEDULE)
    asked = frame("UPLOAD_CHUNK", offset=where, length=64, data=bytes(range(64)), timestamp=next(TIME))
    [answer] = [dialect.decode(part) for part in dialect.Framer().feed(board.feed(asked))]
    assert answer.result == dialect.value("STEPMAP_RESULT_BUSY")
    assert (next_offset(board), board.memory()[: 2 * BANK]) == (where, banks)


def next_offset(board: Board) -> int:
    """Where the board says an upload goes on; asking changes nothing."""
    asked = frame("UPLOAD_CHUNK", timestamp=next(TIME))
    [answer] = [dialect.decode(part) for part in dialect.Framer().feed(board.feed(asked))]
    return int(answer.next)


@pytest.mark.parametrize("moment", ["chunk", "commit"])
def test_an_upload_waits_while_the_board_runs(board: Board, moment: str) -> None:
    """A run that begins in mid-upload stops the upload, which goes on afterwards."""
    put(board, OLD)
    last = 60 if moment == "chunk" else 1 + 1 + 171 + 1  # status, begin, chunks, commit

    def run(part: bytes) -> list[bytes]:
        nonlocal last
        last -= 1
        if last == 0:
            board.idle(False)
        return [part]

    with pytest.raises(LinkError, match="hint: Stop it first"):
        put(board, SCHEDULE, to=run)
    assert board.schedule() == OLD
    board.idle(True)
    assert put(board, SCHEDULE).resumed_at > 0
    assert board.schedule() == SCHEDULE


BAD = {
    "too large": (blob(36864 + 8), r"it has 36872 bytes, there is room for 36864\)\n.*\nhint: Shorten the trajectory"),
    "another model": (blob(4096, model=b"another!"), r"made for model 616e6f7468657221\)\n.*\nhint: Build and flash"),
    "not for this firmware": (blob(4095) + b"\xee", "not a schedule this firmware can read"),
    "no schedule": (b"RIFF" + bytes(1000), "this is not a schedule\ncause: It does not begin with SMS1"),
    "nothing": (b"", "does not begin with SMS1"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_schedule_is_refused_with_what_to_do(board: Board, case: str) -> None:
    put(board, OLD)
    schedule, words = BAD[case]
    with pytest.raises(LinkError, match=words):
        put(board, schedule)
    assert board.schedule() == OLD
    board.reset()
    assert board.schedule() == OLD
    put(board, SCHEDULE)
    assert board.schedule() == SCHEDULE


def test_a_board_without_banks_says_so() -> None:
    with Board(banks=0) as small:
        with pytest.raises(LinkError, match="hint: Build the firmware with this job's schedule"):
            put(small, SCHEDULE)
        assert small.schedule() == b""


def test_a_board_without_journals_keeps_a_schedule_until_reset() -> None:
    with Board(journals=0) as board:
        put(board, SCHEDULE)
        assert board.schedule() == SCHEDULE
        board.reset()
        assert board.schedule() == b""


def begin(number: int, schedule: bytes, key: KeyOfBoard = KEY, **changed: object) -> bytes:
    fields: dict[str, object] = {
        "counter": number,
        "size": len(schedule),
        "digest": hashlib.sha256(schedule).digest(),
        "model": MODEL,
        "target_system": 1,
    }
    mac = authentication(
        key, counter=number, size=len(schedule), digest=fields["digest"], model=MODEL, target=1
    )  # over what was true
    return frame("UPLOAD_BEGIN", timestamp=next(TIME), **fields | {"mac": mac} | changed)


CHANGES = {
    "counter": 8,
    "size": 4096 - 8,
    "digest": bytes(32),
    "model": b"model002",
    "mac": bytes(32),
    "target_component": 7,
}


@pytest.mark.parametrize("field", CHANGES)
def test_the_code_covers_every_field(board: Board, field: str) -> None:
    link, line = linked(board)
    board.ask("M", CHANGES["model"] if field == "model" else MODEL)
    before = board.facts().operations
    line.write(begin(7, blob(4096), **{field: CHANGES[field]}))
    status = link.receive("UPLOAD_STATUS", timeout=1)
    assert status.result == 8  # another key
    assert status.state == 0
    assert board.facts().operations == before + 1  # the timestamp


def test_the_code_must_be_made_with_the_upload_key(board: Board) -> None:
    """Who could sign messages but not schedules."""
    link, line = linked(board)
    line.write(begin(7, blob(4096), key=KeyOfBoard(bytes(32))))
    assert link.receive("UPLOAD_STATUS", timeout=1).result == 8


def test_a_counter_counts_once(board: Board) -> None:
    link, line = linked(board)

    def result(counter: int, schedule: bytes) -> int:
        line.write(begin(counter, schedule))
        return link.receive("UPLOAD_STATUS", timeout=1).result

    one, two = blob(4096, seed=1), blob(4096, seed=2)
    assert result(100, one) == 0
    assert result(100, one) == 0  # sent again: the answer got lost
    line.write(frame("UPLOAD_CHUNK", timestamp=next(TIME), offset=0, length=192, data=one[:192]))
    assert link.receive("UPLOAD_STATUS", timeout=1).next == 192
    assert result(100, two) == 9
    assert result(99, two) == 9
    line.write(frame("UPLOAD_CHUNK", timestamp=next(TIME)))
    assert link.receive("UPLOAD_STATUS", timeout=1).next == 192  # the upload goes on undisturbed
    board.reset()
    TIME.jump()
    assert result(100, one) == 9  # also after a reset
    assert result(101, two) == 0
    assert result(105, two) == 0  # another host goes on with what is half there
    assert result(105, two) == 0  # and its answer got lost


def test_bytes_that_are_not_those_announced_are_never_used(board: Board) -> None:
    put(board, OLD)
    link, line = linked(board)
    good, wrong = blob(384, seed=1), blob(384, seed=2)
    line.write(begin(2**60, good))
    for offset in (0, 192):
        part = wrong[offset : offset + 192]
        line.write(frame("UPLOAD_CHUNK", timestamp=next(TIME), offset=offset, length=192, data=part))
    line.write(frame("UPLOAD_COMMIT", timestamp=next(TIME), digest=hashlib.sha256(good).digest()[:8]))
    answers = [link.poll("UPLOAD_STATUS") for _ in range(4)]
    assert [(answer.result, answer.state) for answer in answers] == [(0, 1), (0, 1), (0, 2), (11, 4)]
    assert board.schedule() == OLD


def by_hand(board: Board, schedule: bytes) -> list[tuple[int, int]]:
    """(result, state) of each answer to an upload whose bytes nobody on this side looks at."""
    link, line = linked(board)
    line.write(begin(2**60, schedule))
    for offset in range(0, len(schedule), 192):
        part = schedule[offset : offset + 192]
        line.write(frame("UPLOAD_CHUNK", timestamp=next(TIME), offset=offset, length=len(part), data=part))
    line.write(frame("UPLOAD_COMMIT", timestamp=next(TIME), digest=hashlib.sha256(schedule).digest()[:8]))
    answers = iter(lambda: link.poll("UPLOAD_STATUS"), None)
    return [(answer.result, answer.state) for answer in answers]


@pytest.mark.parametrize(
    ("schedule", "last"),
    [
        (blob(384), (0, 3)),
        (b"RIFF" + blob(384)[4:], (12, 4)),
        (blob(384, model=b"another!"), (10, 4)),  # and announced for this one
    ],
)
def test_the_board_looks_into_a_schedule_itself(board: Board, schedule: bytes, last: tuple[int, int]) -> None:
    assert by_hand(board, schedule) == [(0, 1), (0, 1), (0, 2), last]
    assert board.schedule() == (schedule if last == (0, 3) else b"")


@pytest.mark.parametrize("size", [0, 15])
def test_a_schedule_too_small_to_be_one_is_refused(board: Board, size: int) -> None:
    link, line = linked(board)
    line.write(begin(7, bytes(size)))
    assert link.receive("UPLOAD_STATUS", timeout=1).result == 5


def test_an_upload_that_is_all_there_goes_on_with_commit(board: Board) -> None:
    last = 1 + 1 + 22  # status, begin, chunks

    def end(part: bytes) -> list[bytes]:
        nonlocal last
        last -= 1
        if last < 0:
            raise EndedError
        return [part]

    with pytest.raises(EndedError):
        put(board, blob(4096), to=end)
    assert put(board, blob(4096)).resumed_at == 4096
    assert board.schedule() == blob(4096)


def test_an_upload_whose_bank_was_lost_to_another_is_over(board: Board) -> None:
    link, line = linked(board)
    line.write(begin(7, blob(4096, seed=1)))
    board.fail(2)  # the erase behind the record
    line.write(begin(8, blob(4096, seed=2)))
    answers = [link.receive("UPLOAD_STATUS", timeout=1) for _ in range(2)]
    assert [(answer.result, answer.state) for answer in answers] == [(0, 1), (3, 4)]


def test_begin_sent_again_after_commit_does_nothing(board: Board) -> None:
    by_hand(board, blob(384))
    link, line = linked(board)
    before = board.facts().operations
    line.write(begin(2**60, blob(384)))
    status = link.receive("UPLOAD_STATUS", timeout=1)
    assert (status.result, status.state) == (0, 3)
    assert board.facts().operations == before


@pytest.mark.parametrize(
    ("offset", "length", "result"), [(0, 193, 5), (0, 13, 5), (0, 0, 0), (8, 8, 0), (2**32 - 8, 8, 0)]
)
def test_chunks_that_cannot_be_are_not_written(board: Board, offset: int, length: int, result: int) -> None:
    link, line = linked(board)
    line.write(begin(7, blob(4096)))
    before = board.facts().operations
    line.write(frame("UPLOAD_CHUNK", timestamp=next(TIME), offset=offset, length=length, data=bytes(range(192))))
    link.receive("UPLOAD_STATUS", timeout=1)
    status = link.receive("UPLOAD_STATUS", timeout=1)
    assert (status.result, status.next) == (result, 0)
    assert board.facts().operations == before


def test_a_commit_before_the_end_or_of_another_upload_is_refused(board: Board) -> None:
    link, line = linked(board)
    line.write(begin(7, blob(4096)))
    for digest in (hashlib.sha256(blob(4096)).digest()[:8], bytes(8)):
        line.write(frame("UPLOAD_COMMIT", timestamp=next(TIME), digest=digest))
    assert [link.poll("UPLOAD_STATUS").result for _ in range(3)] == [0, 7, 7]


# Memory that fails


@pytest.mark.parametrize("journals", [JOURNAL, 240, 144, 96])
def test_memory_that_fails_once_is_reported_and_no_harm(journals: int) -> None:
    old, new = blob(600, seed=4), blob(800, seed=5)
    with Board(journals=journals) as board:
        put(board, old)
        start = board.memory()
        board.reset()
        said = b"".join(record(board, new))
        for operation in range(1, count_operations(board, start, said) + 1):
            board.restore(start)
            board.fail(operation)
            if board.reset() != 0:
                assert board.reset() == 0
            for _ in range(2):
                if board.schedule() != new:
                    assert board.schedule() == old
                    refusal = refused(board, new)
                    assert refusal == "" or "memory could not be written" in refusal
            assert board.schedule() == new
            board.reset()
            assert board.schedule() == new


def refused(board: Board, schedule: bytes) -> str:
    try:
        put(board, schedule)
    except LinkError as error:
        return error.cause
    return ""


def test_a_damaged_bank_is_not_used_but_the_one_before() -> None:
    with Board() as board:
        put(board, OLD)
        put(board, SCHEDULE)
        memory = bytearray(board.memory())
        memory[36864 + 1000] ^= 4  # OLD went to the first bank, SCHEDULE to the second
        board.restore(bytes(memory))
        board.reset()
        assert board.schedule() == OLD
        memory[1000] ^= 4
        board.restore(bytes(memory))
        board.reset()
        assert board.schedule() == b""
        put(board, SCHEDULE)
        board.reset()
        assert board.schedule() == SCHEDULE


# Loss of power


def record(board: Board, schedule: bytes) -> list[bytes]:
    """The frames of an upload over a good line."""
    link, line = linked(board)
    line.heartbeat()
    link.ping()
    line.said.clear()
    upload(link, schedule, KEY)
    return line.said


PARTS = [0, 5, 8, 40, NEVER]


@pytest.mark.parametrize("journals", [JOURNAL, 240, 144, 96])
def test_power_lost_at_any_write_leaves_the_old_or_the_new(journals: int) -> None:
    """Power goes at every erase and write of start and upload, after none, some or all of its bytes.

    Journals of 240, 144 and 96 bytes hold five, three and two records: they are switched all the time.
    """
    small = journals != JOURNAL
    old, new = (blob(1000, seed=4), blob(1500, seed=5)) if small else (OLD, SCHEDULE)
    with Board(journals=journals) as board:
        put(board, old)
        start = board.memory()
        board.reset()
        said = b"".join(record(board, new))
        operations = count_operations(board, start, said)
        outcomes = {old: 0, new: 0}
        for operation in range(1, operations + 1):
            for part in PARTS:
                board.restore(start)
                board.cut(operation, part, seed=operation)
                if board.reset() == 0:
                    board.feed(said)
                assert not board.facts().alive
                floor_before = board.facts().floor
                assert board.reset() == 0
                found = board.schedule()
                assert found in outcomes, f"neither old nor new after {part} bytes of operation {operation}"
                outcomes[found] += 1
                facts = board.facts()
                assert facts.floor >= floor_before
                board.feed(said)  # all of it was heard before, or belongs to an upload that is over
                assert board.schedule() in outcomes
                if operation % 16 == 0 or small:
                    put(board, new)  # and the board still takes uploads
                    assert board.schedule() == new
        assert outcomes[new] >= 1
        assert outcomes[old] > outcomes[new]


def count_operations(board: Board, start: bytes, said: bytes) -> int:
    """Erases and writes of a start and an upload."""
    board.restore(start)
    before = board.facts().operations
    assert board.reset() == 0
    board.feed(said)
    return board.facts().operations - before


@pytest.mark.parametrize("journals", [JOURNAL, 240, 144, 96])
def test_power_lost_again_while_starting(journals: int) -> None:
    old, new = blob(600, seed=4), blob(800, seed=5)
    with Board(journals=journals) as board:
        put(board, old)
        start = board.memory()
        board.reset()
        said = b"".join(record(board, new))
        for operation in range(1, count_operations(board, start, said) + 1):
            for again in (1, 2, 3):
                for part in (0, 13, NEVER):
                    board.restore(start)
                    board.cut(operation, part, seed=again)
                    if board.reset() == 0:
                        board.feed(said)
                    board.cut(again, part, seed=part % 251)
                    board.reset()
                    board.cut(0, 0)
                    assert board.reset() == 0
                    assert board.schedule() in (old, new)
                    put(board, new)
                    assert board.schedule() == new


# Counters that never go back


def test_timestamps_are_kept_ahead_and_seldom_written(board: Board) -> None:
    ten_minutes = 60 * 10**6
    before = board.facts()
    for i in range(1000):
        assert board.reserve(2**40 + i * ten_minutes // 1000) == 0
    after = board.facts()
    assert after.operations - before.operations <= 2
    assert 2**40 + ten_minutes <= after.floor <= 2**40 + 2.1 * ten_minutes
    board.reset()
    assert board.facts().floor >= after.floor


def test_a_board_that_is_reset_again_and_again_is_given_up() -> None:
    with Board() as board:
        seen = 0

        def reset(part: bytes) -> list[bytes]:
            nonlocal seen
            seen += 1
            if seen % 60 == 0:  # before all of the 171 chunks are there
                board.reset()
                line.heartbeat()
            return [part]

        link, line = linked(board, to=reset)
        with pytest.raises(LinkError, match="was reset 11 times during one upload\nhint: Look at its power supply"):
            upload(link, SCHEDULE, KEY, settings=QUICK)


def test_memory_that_fails_is_named_also_when_the_answer_got_lost() -> None:
    with Board() as board:
        lost = 0

        def to(part: bytes) -> list[bytes]:
            message = dialect.decode(part)
            if message.name == "UPLOAD_CHUNK" and message.length and message.offset == 20 * CHUNK and not lost:
                board.fail(1)
            return [part]

        def back(part: bytes) -> list[bytes]:
            nonlocal lost
            message = dialect.decode(part)
            if message.name == "UPLOAD_STATUS" and message.result != 0 and not lost:
                lost = 1
                return []
            return [part]

        link, _ = linked(board, beat=0.01, to=to, back=back)
        with pytest.raises(
            LinkError, match=r"gave up the upload after 3840 of \d+ bytes\ncause: The board's memory could not"
        ):
            upload(link, SCHEDULE, KEY, settings=QUICK)
        assert lost


def test_a_journal_that_cannot_be_erased_lasts_for_a_year(board: Board) -> None:
    """While something runs nobody erases: the last records reach a day ahead each, the very last a year."""
    day = 24 * 3600 * 10**5
    now = 2**40
    while board.reserve(now) == 0:
        now += 3600 * 10**5  # an hour
    assert now - 2**40 > 365 * day
    assert board.reserve(now) == -4
    assert board.facts().floor <= now
    assert board.tend() == 0
    assert board.reserve(now) == 0
    board.reset()
    assert board.facts().floor > now


def test_the_end_of_time_is_refused(board: Board) -> None:
    assert board.reserve(2**48) == -5
    assert board.reserve(2**48 - 1) == -5
    assert board.reserve(2**48 - 2**17) == 0


def test_the_store_checks_what_it_is_asked(board: Board) -> None:
    assert board.result("E", "<Q", 5) == 0
    assert board.result("E", "<Q", 5) == board.result("E", "<Q", 4) == -9
    assert (
        board.result("N", "<2I", 2, 100) == board.result("N", "<2I", 0, 0) == board.result("N", "<2I", 0, 2**20) == -1
    )
    with Board(banks=0) as small:
        assert small.result("E", "<Q", 5) == -2


def test_resets_wear_the_journals_slowly(board: Board) -> None:
    """The first message after a start writes a record and fills the place before it; a journal of 1 KiB holds twenty
    behind its mark."""
    before = board.facts().operations
    for _ in range(200):
        assert board.reset() == 0
        board.ask("B")
        board.ask("B")
    assert board.facts().operations - before >= 200
    # Two writes each; for every twenty of them an erase and the mark behind it.
    assert board.facts().operations - before <= 400 + 2 * (400 // 20 + 1)


def test_journals_of_any_size_start_on_memory_never_erased() -> None:
    for journals in (0, 40, 48, 96, 144, 1024, 16384):
        with Board(journals=journals) as board:
            put(board, blob(1000))
            assert board.schedule() == blob(1000)
            board.reset()
            assert board.schedule() == (blob(1000) if journals >= 96 else b"")


def test_begin_s_layout_is_the_one_the_code_covers() -> None:
    made = begin(0x0102030405060708, blob(100))
    covered = made[10 : 10 + 54]
    assert struct.unpack("<QI", covered[:12]) == (0x0102030405060708, 100)
    assert covered[12:44] == hashlib.sha256(blob(100)).digest()
    assert covered[44:54] == MODEL + bytes([1, 0])
