"""What is broken in the checker of histories."""

from __future__ import annotations

from typing import Final

from tests.mutations.mutation import Mutation, mutations

_REFERENCE: Final = (
    "tests/anomalies/offline/test_offline_repeated.py",
    "tests/anomalies/offline/test_offline_agrees_with_reference.py",
)
_LIVES: Final = ("tests/anomalies/test_simulated_lives.py", "tests/cli/test_check_command.py")
_METRICS: Final = ("tests/anomalies/offline/test_offline_metrics.py",)
_TESTS: Final = (_REFERENCE, _LIVES, _METRICS)
_RULES: Final = "canary/anomalies/offline/"

OFFLINE: Final[list[Mutation]] = [
    *mutations(
        _RULES + "tables.py",
        _TESTS,
        ("ok_read[read_message[history.type[read_op] == OK]] = True", "ok_read[read_message] = True"),
        ("send_message, send_type != INVOKE", "send_message, send_type == OK"),
        ("send_message, send_type == FAIL", "send_message, send_type == INFO"),
        ("send_message, send_type == FAIL", "send_message, (send_type == FAIL) | (send_type == INFO)"),
        ("committed = history.type == OK", "committed = (history.type == OK) | (history.type == FAIL)"),
        ("(send_type == INFO) & ok_read[send_message]", "send_type == INFO"),
        (
            "(send_type == INFO) & ok_read[send_message]",
            "(send_type == FAIL) & ok_read[send_message]",
        ),
        ("    committed[history.send_op[(send_type == INFO) & ok_read[send_message]]] = True\n", ""),
        (
            "stands = (history.send_offset != UNKNOWN) & committed[history.send_op]",
            "stands = history.send_offset != UNKNOWN",
        ),
        (
            "known = history.read_offset != UNKNOWN",
            "known = (history.read_offset != UNKNOWN) & (history.type[read_op] == OK)",
        ),
        ("np.minimum.at(first, copies[0], copies[1])", "np.maximum.at(first, copies[0], copies[1])"),
        ("np.maximum.at(last, copies[0], copies[1])", "np.minimum.at(last, copies[0], copies[1])"),
        ("first_reader[read_message[::-1]] = read_op[::-1]", "first_reader[read_message] = read_op"),
        ("differing = np.flatnonzero(some[of] != what)", "differing = np.flatnonzero(some[of] > what)"),
    ),
    *mutations(
        _RULES + "log_rules.py",
        _TESTS,
        ("np.flatnonzero(~tables.message_invoked)", "np.flatnonzero(tables.message_writer == NONE)"),
        ("np.flatnonzero(~tables.message_invoked)", "np.zeros(0, np.int64)"),
    ),
    *mutations(
        _RULES + "read_rules.py",
        _TESTS,
        ("reads = reads[tables.history.type[tables.read_op[reads]] == OK]", "pass"),
        ("bad = tables.message_failed_writer != NONE", "bad = tables.message_writer == NONE"),
        ("    reads = reads[first]\n", ""),
        ("if sent_twice.any():", "if False:"),
        ("known = first != NONE", "known = last >= NONE"),
        ("read = np.flatnonzero(tables.message_ok_read & known)", "read = np.flatnonzero(known)"),
        ("np.maximum.at(bound, key[read], first[read])", "np.maximum.at(bound, key[read], last[read])"),
        ("due = known & ~tables.message_ok_read &", "due = known &"),
        ("(last <= bound[key])", "(last < bound[key])"),
        ("(last <= bound[key])", "(first <= bound[key])"),
        ("(last <= bound[key])", "(last >= 0)"),
        ("lost = lost[tables.committed[tables.message_writer[lost]]]", "pass"),
        ("np.flatnonzero(known & (last == bound[key])", "np.flatnonzero(known & (first == bound[key])"),
        (
            "acknowledged = np.flatnonzero(history.type[history.send_op] == OK)[::-1]",
            "acknowledged = np.flatnonzero(history.type[history.send_op] != INVOKE)[::-1]",
        ),
        (
            "ok_reads = np.flatnonzero(history.type[tables.read_op] == OK)[::-1]",
            "ok_reads = np.arange(len(tables.read_op))[::-1]",
        ),
        ("& (seen > sent))", "& (seen != sent))"),
        ("messages = messages[seen == NEVER]", "pass"),
    ),
    *mutations(
        _RULES + "order_rules.py",
        _TESTS,
        ("wrong[starts - 1] = False", "pass"),
        ("across = np.flatnonzero(_differ(place[left], place[right]))", "across = np.zeros(0, np.int64)"),
        ("pairs = pairs[~np.isin(", "pairs = pairs[np.ones(len(pairs.left), bool) | np.isin("),
        (
            "same = np.flatnonzero((op[1:] == op[:-1]) & (key[1:] == key[:-1]))",
            "same = np.flatnonzero(key[1:] == key[:-1])",
        ),
        (
            "_consecutive(tables, groups, tables.history.type[groups.op] == OK)",
            "_consecutive(tables, groups, tables.history.type[groups.op] >= 0)",
        ),
        ("counted = (type_ == OK) | (type_ == INFO)", "counted = type_ == OK"),
        ("counted = (type_ == OK) | (type_ == INFO)", "counted = type_ != INVOKE"),
        ("rows = np.flatnonzero(history.type[history.send_op] != INVOKE)", "rows = np.arange(len(history.send_op))"),
        ("kept = ~_dropped(tables, whose, groups.op[left], groups.op[right])", "kept = np.ones(len(left), bool)"),
        ("done = (history.type == OK) | (history.type == INFO)", "done = history.type == OK"),
        ("done = (history.type == OK) | (history.type == INFO)", "done = history.type != INVOKE"),
        (
            "changes = np.flatnonzero(done & ((history.f == ASSIGN) | (history.f == SUBSCRIBE)))",
            "changes = np.flatnonzero(done & (history.f == ASSIGN))",
        ),
        (
            "changes = np.flatnonzero(done & ((history.f == ASSIGN) | (history.f == SUBSCRIBE)))",
            "changes = np.flatnonzero(done & (history.f == SUBSCRIBE))",
        ),
        ("naming = done[history.held_op]", "naming = np.ones(len(history.held_op), bool)"),
        ("(left != NONE) & (right != NONE) & (right - left != 1)", "(right - left != 1)"),
        ("return cases(np.flatnonzero(delta > 1))", "return cases(np.flatnonzero(delta > 2))"),
        ("cases(np.flatnonzero(delta < 1))", "cases(np.flatnonzero(delta < 0))"),
        ("full = np.flatnonzero(length > 0)", "full = np.arange(len(length))[length > 1]"),
    ),
    *mutations(
        _RULES + "cycles.py",
        _TESTS,
        ("(tables.slot_key[1:] == tables.slot_key[:-1])\n        & ", ""),
        ("read = read[(writer != NONE) & (writer != tables.read_op[read])]", "read = read[writer != NONE]"),
        ("through = np.flatnonzero(inner.wr) if need_wr else", "through ="),
        ("if ww_deps:\n        edges = joined", "if not ww_deps:\n        edges = joined"),
    ),
    *mutations(
        _RULES + "verdict.py",
        (("tests/anomalies/offline/test_offline_verdict.py", *_REFERENCE), _LIVES),
        ("return self.confirmed and self.allowed >= set(self.anomalies)", "return self.allowed >= set(self.anomalies)"),
        ("return self.confirmed and self.allowed >= set(self.anomalies)", "return self.confirmed"),
        ("(history.type == OK) & (history.f <= TXN)", "history.type == OK"),
        ("(history.type == OK) & (history.f <= TXN)", "(history.type == OK) & (history.f < TXN)"),
        ("policy.allowed(self.sub_via |", "policy.allowed(frozenset() |"),
        ("if self.ww_deps else", "if not self.ww_deps else"),
        ('if options.ww_deps:\n        found["G0"]', 'if True:\n        found["G0"]'),
    ),
    *mutations(
        "canary/anomalies/policy.py",
        (("tests/anomalies/offline/test_offline_verdict.py", *_REFERENCE), _LIVES),
        ('in {"always", *options}', "in options"),
        ('in {"always", *options}', "is not None"),
    ),
    *mutations(
        "canary/anomalies/log_anomalies.py",
        (("tests/anomalies/offline/test_offline_verdict.py", *_REFERENCE), _LIVES),
        ('allowed_with="always"', "allowed_with=None"),
        (
            'allowed_with="subscribe",\n        picture=(("the log", "a b c d e")',
            'allowed_with="ww_deps",\n        picture=(("the log", "a b c d e")',
        ),
    ),
]
