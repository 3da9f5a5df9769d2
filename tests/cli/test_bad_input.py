"""Whatever is wrong with the input: one line WHAT, WHERE: REMEDY, exit code 2, nothing on standard output, no hang."""

import subprocess
from pathlib import Path

import pytest

from program import SMALL, find_program, refusal, run, write_lengths

WRONG_LENGTHS = {
    "negative": (
        "1\n2\n3\n-5\n",
        "length -5 is negative, document 3 (line 4) of {}: give lengths of at least 0",
    ),
    "absurd": (
        "9" * 13,
        "length 9999999999999 is above 2^40, document 0 (line 1) of {}: give lengths in tokens",
    ),
    "no number": ("7\n1e3\n", "'1e3' is not an integer, document 1 (line 2) of {}: give one integer a line"),
    "blank line": ("7\n\n8\n", "the line is blank, document 1 (line 2) of {}: give one integer a line"),
    "zero byte": ("7\n\0\n", "a zero byte in a text file, document 1 (line 2) of {}: give one integer a line"),
    "huge line": (
        "x" * 1_000_000,
        "'" + "x" * 40 + "...' is not an integer, document 0 (line 1) of {}: ",
    ),
    "json without length": ('{"length": "7"}', "no field holds a length, document 0 (line 1) of {}: "),
    "cut index": (
        "MMIDIDX\0\0cut",
        "the header is cut off, byte 12 of {}: write the index again",
    ),
}


@pytest.mark.parametrize("case", WRONG_LENGTHS)
@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_a_broken_length_is_named_by_document_and_line(tmp_path: Path, command: str, case: str) -> None:
    content, message = WRONG_LENGTHS[case]
    path = tmp_path / "lengths.txt"
    path.write_text(content)
    out = ["--out", tmp_path / "plan.jsonl"] if command == "plan" else []
    assert refusal(command, path, *out).startswith(message.format(path))
    assert not (tmp_path / "plan.jsonl").exists()


def test_standard_input_is_named_as_such() -> None:
    assert "document 1 (line 2) of standard input" in refusal("inspect", "-", text="7\nseven\n")


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/no/such/file", "the file cannot be opened (No such file or directory), /no/such/file: "),
        ("/", "this is a folder, /: "),
        ("/proc/self/mem", "the file cannot be read (Input/output error), /proc/self/mem: "),
        ("/dev/zero", "a zero byte in a text file, document 0 (line 1) of /dev/zero: "),
    ],
)
def test_an_unreadable_file_is_refused_with_the_reason(path: str, what: str) -> None:
    assert refusal("inspect", path).startswith(what)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--mesh dp=0", "axis dp has 0 ranks, option --mesh: give at least 1 for each axis"),
        ("--mesh dp=-2", "axis dp has -2 ranks, option --mesh: "),
        ("--mesh dp=two", "'two' is not an integer of 64 bits, option --mesh: give a mesh as dp=8,pp=1,cp=2,tp=1"),
        ("--mesh dp=2,dp=4", "axis dp is given twice, option --mesh: "),
        ("--mesh dp=2,ep=4", "'ep=4' is no axis of a mesh, option --mesh: "),
        ("--mesh 8", "'8' is no axis of a mesh, option --mesh: "),
        ("--mesh dp=4096,cp=4096,pp=4096", "mesh dp=4096,pp=4096,cp=4096,tp=1 has more than 16777216 ranks, "),
        ("--mesh dp=99999999999999999999", "'99999999999999999999' is not an integer of 64 bits, option --mesh: "),
        ("--mesh dp=6 --pool 4", "pool 4 does not divide dp 6, field pool: use one of 1, 2, 3, 6"),
        ("--pool 0", "pool 0 does not divide dp 8, "),
        ("--window 3 --mesh dp=1,cp=4", "window 3 is smaller than the context group of 4 ranks, field window: "),
        ("--window 0", "window 0 is out of range, "),
        ("--window 64 --max-tokens 63", "window 64 is above max_tokens 63, "),
        (
            "--window 64 --align 129",
            "align 129 is above the window of 64 tokens, field align: give at most 128, or a larger window",
        ),
        (
            "--window 64 --align 3 --max-tokens 80",
            "max_tokens 80 has no room for the padding of 1 ranks to rows of align ",
        ),
        ("--micro-steps 0", "micro_steps 0 is out of range, "),
        ("--steps -1", "--steps -1 is too small, option --steps: give at least 0"),
        ("--mesh tp=3", "tp 3 does not divide the 32 query heads of llama3-8b, "),
        ("--model gpt-9", "model 'gpt-9' is not known, "),
        ("--model ./none.json", "the file cannot be opened (No such file or directory), ./none.json: "),
        ("--hardware h9000", "hardware 'h9000' is not known, "),
        ("--overlong shrink", "overlong 'shrink' is not known, "),
        ("--overlong error --window 8", "length 30 is above the window of 8 tokens, document 1: "),
        ("--masks causal:31", "masks are given for 31 layers and the model has 32, "),
        ("--masks round:32", "'round' is no kind of mask, option --masks: "),
        ("--masks causal,full", "'causal,full' does not say how many layers each mask has, option --masks: "),
        ("--masks sliding_window:32", "masks[0].window 0 is out of range, "),
        (
            "--window 1e3",
            "'1e3' is not an integer of 64 bits, option --window: give a whole number in decimal digits",
        ),
        ("--window 0x100", "'0x100' is not an integer of 64 bits, option --window: "),
        ("--seed 99999999999999999999", "'99999999999999999999' is not an integer of 64 bits, option --seed: "),
        ("--pool 9223372036854775808", "'9223372036854775808' is not an integer of 64 bits, option --pool: "),
        (
            "--nonsense",
            "The following argument was not expected: --nonsense, command line: run equipoise ",
        ),
    ],
)
def test_flags_that_contradict_are_refused(tmp_path: Path, flags: str, message: str) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [5, 30, 2])
    assert refusal("inspect", lengths, *flags.split()).startswith(message)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--strategy best", "strategy 'best' is not known, "),
        ("--dp-sync never", "dp_sync 'never' is not known, "),
        ("--effort hard", "effort 'hard' is not known, "),
        ("--gradient-sum exact", "gradient_sum 'exact' is not known, "),
        ("--max-delay -1", "--max-delay -1 is too small, option --max-delay: give at least 0"),
        ("--queues 8,x", "'x' is not an integer of 64 bits, option --queues: give integers with commas"),
        ("--strategy wlb --queues 8,4", "queue threshold 4 follows 8, "),
        ("--speeds 1000", "1 speeds are given for 8 ranks of dp x cp, "),
        ("--exchange-bytes 9e18", "'9e18' is not an integer of 64 bits, option --exchange-bytes: "),
        ("--exchange-bytes 9223372036854775808", "'9223372036854775808' is not an integer of 64 bits, option "),
        ("--exchange-bytes 0", "exchange_bytes 0 is out of range, "),
        (
            "--out /no/such/folder/plan",
            "the file cannot be written (No such file or directory), /no/such/",
        ),
        ("--out /", "this is a folder, /: give a file to write"),
        ("--out /dev/full", "the file cannot be written (No space left on device), /dev/full: "),
    ],
)
def test_flags_of_plan_that_cannot_be_are_refused(tmp_path: Path, flags: str, message: str) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [5, 30, 2])
    out = [] if "--out" in flags else ["--out", tmp_path / "plan.jsonl"]
    assert refusal("plan", lengths, *flags.split(), *out).startswith(message)
    assert list(tmp_path.iterdir()) == [lengths], "nothing is left behind"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "A subcommand is required, command line: run equipoise --help"),
        (["balance"], "'balance' is no command, command line: run equipoise --help"),
        (["plan"], "LENGTHS is required, command line: run equipoise plan --help"),
        (["verify"], "FILE is required, command line: run equipoise verify --help"),
        (
            ["calibrate", "now"],
            "The following argument was not expected: now, command line: run equipoise calibrate --help",
        ),
    ],
)
def test_a_wrong_command_line_is_refused_with_the_help_to_read(arguments: list[str], message: str) -> None:
    assert refusal(*arguments) == message


def test_a_plan_without_out_is_refused(tmp_path: Path) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [5])
    assert refusal("plan", lengths) == "--out is required, command line: run equipoise plan --help"


@pytest.mark.parametrize("part", ["", ".part"])
@pytest.mark.parametrize("piped", [False, True])
def test_a_plan_never_overwrites_its_lengths(tmp_path: Path, part: str, piped: bool) -> None:
    lengths = write_lengths(tmp_path / f"lengths{part}", [5, 6, 7])
    (tmp_path / "link").symlink_to(tmp_path / "lengths")
    out = tmp_path / "link" if not part else tmp_path / "lengths"
    with lengths.open() as text:
        command = [find_program(), "plan", "-" if piped else lengths, "--out", out]
        done = subprocess.run(command, stdin=text, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"equipoise: error: the plan would overwrite the lengths in {out}{part}, option --out: give another file\n"
    )
    assert lengths.read_text() == "5\n6\n7\n"


@pytest.mark.parametrize("command", [("compare",), ("advise", "--pool-size")])
def test_a_list_without_documents_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [])
    assert refusal(*command, lengths) == (
        f"there is no step to plan, {lengths}: give at least one document and one step"
    )


def test_a_plan_without_a_name_is_refused(tmp_path: Path) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [5])
    assert refusal("plan", lengths, "--out", "") == (
        "the name of the plan file is empty, option --out: give a file to write"
    )


def test_an_error_leaves_an_older_plan_alone(tmp_path: Path) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [5, 6, 7])
    out = tmp_path / "plan.jsonl"
    assert run("plan", lengths, "--out", out, *SMALL).returncode == 0
    before = out.read_bytes()
    refusal("plan", write_lengths(tmp_path / "bad.txt", [5, -6]), "--out", out, *SMALL)
    assert out.read_bytes() == before


def test_a_full_disk_for_the_output_is_an_error(tmp_path: Path) -> None:
    lengths = write_lengths(tmp_path / "lengths.txt", [5])
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [find_program(), "inspect", lengths], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("equipoise: error: the output cannot be written (No space left on device), ")
