"""What is broken in the checker of histories."""

# ruff: noqa: E501  # code is quoted on one line

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
        ("build", "ok_read[read_message[history.type[read_op] == OK]] = True", "ok_read[read_message] = True"),
        ("build", "send_type != INVOKE", "send_type == OK"),
        ("build", "send_type == FAIL", "send_type == INFO"),
        ("build", "send_type == FAIL", "(send_type == FAIL) | (send_type == INFO)"),
        ("build", "committed = history.type == OK", "committed = (history.type == OK) | (history.type == FAIL)"),
        ("build", "(send_type == INFO) & ok_read[send_message]", "send_type == INFO"),
        ("build", "send_type == INFO", "send_type == FAIL"),
        ("build", "committed[history.send_op[(send_type == INFO) & ok_read[send_message]]] = True", "pass"),
        ("_slots", "(history.send_offset != UNKNOWN) & committed[history.send_op]", "history.send_offset != UNKNOWN"),
        (
            "_slots",
            "known = history.read_offset != UNKNOWN",
            "known = (history.read_offset != UNKNOWN) & (history.type[read_op] == OK)",
        ),
        ("_slots", "np.minimum.at(first, copies[0], copies[1])", "np.maximum.at(first, copies[0], copies[1])"),
        ("_slots", "np.maximum.at(last, copies[0], copies[1])", "np.minimum.at(last, copies[0], copies[1])"),
        ("build", "first_reader[read_message[::-1]] = read_op[::-1]", "first_reader[read_message] = read_op"),
        ("_several", "differing = np.flatnonzero(some[of] != what)", "differing = np.flatnonzero(some[of] > what)"),
    ),
    *mutations(
        _RULES + "log_rules.py",
        _TESTS,
        (
            "phantom",
            "messages = np.flatnonzero(~tables.message_invoked)",
            "messages = np.flatnonzero(tables.message_writer == NONE)",
        ),
        ("phantom", "messages = np.flatnonzero(~tables.message_invoked)", "messages = np.zeros(0, np.int64)"),
    ),
    *mutations(
        _RULES + "read_rules.py",
        _TESTS,
        ("aborted_read", "reads = reads[tables.history.type[tables.read_op[reads]] == OK]", "pass"),
        ("aborted_read", "bad = tables.message_failed_writer != NONE", "bad = tables.message_writer == NONE"),
        ("precommitted_read", "reads = reads[first]", "pass"),
        ("precommitted_read", "sent_twice.any()", "False"),
        ("lost_write", "known = first != NONE", "known = last >= NONE"),
        ("lost_write", "read = np.flatnonzero(tables.message_ok_read & known)", "read = np.flatnonzero(known)"),
        ("lost_write", "np.maximum.at(bound, key[read], first[read])", "np.maximum.at(bound, key[read], last[read])"),
        ("lost_write", "known & ~tables.message_ok_read", "known"),
        ("lost_write", "last <= bound[key]", "last < bound[key]"),
        ("lost_write", "last <= bound[key]", "first <= bound[key]"),
        ("lost_write", "last <= bound[key]", "last >= 0"),
        ("lost_write", "lost = lost[tables.committed[tables.message_writer[lost]]]", "pass"),
        ("lost_write", "last == bound[key]", "first == bound[key]"),
        ("unseen_messages", "history.type[history.send_op] == OK", "history.type[history.send_op] != INVOKE"),
        ("unseen_messages", "np.flatnonzero(history.type[tables.read_op] == OK)", "np.arange(len(tables.read_op))"),
        (
            "unseen_messages",
            "messages = np.flatnonzero((sent != NEVER) & (seen > sent))",
            "messages = np.flatnonzero((sent != NEVER) & (seen != sent))",
        ),
        ("unseen", "messages = messages[seen == NEVER]", "pass"),
    ),
    *mutations(
        _RULES + "order_rules.py",
        _TESTS,
        ("internal_polls", "wrong[starts - 1] = False", "pass"),
        (
            "internal_polls",
            "across = np.flatnonzero(_differ(place[left], place[right]))",
            "across = np.zeros(0, np.int64)",
        ),
        (
            "internal_polls",
            "~np.isin(pairs.left_op.astype(np.int64) * keys + tables.message_key[pairs.left], excused)",
            "np.ones(len(pairs.left), bool) | np.isin(pairs.left_op.astype(np.int64) * keys + tables.message_key[pairs.left], excused)",
        ),
        ("internal_sends", "(op[1:] == op[:-1]) & (key[1:] == key[:-1])", "key[1:] == key[:-1]"),
        ("external_polls", "tables.history.type[groups.op] == OK", "tables.history.type[groups.op] >= 0"),
        ("external_sends", "counted = (type_ == OK) | (type_ == INFO)", "counted = type_ == OK"),
        ("external_sends", "counted = (type_ == OK) | (type_ == INFO)", "counted = type_ != INVOKE"),
        (
            "_completed_sends",
            "np.flatnonzero(history.type[history.send_op] != INVOKE)",
            "np.arange(len(history.send_op))",
        ),
        ("_consecutive", "~_dropped(tables, whose, groups.op[left], groups.op[right])", "np.ones(len(left), bool)"),
        ("_dropped", "done = (history.type == OK) | (history.type == INFO)", "done = history.type == OK"),
        ("_dropped", "done = (history.type == OK) | (history.type == INFO)", "done = history.type != INVOKE"),
        ("_dropped", "(history.f == ASSIGN) | (history.f == SUBSCRIBE)", "history.f == ASSIGN"),
        ("_dropped", "(history.f == ASSIGN) | (history.f == SUBSCRIBE)", "history.f == SUBSCRIBE"),
        ("_dropped", "naming = done[history.held_op]", "naming = np.ones(len(history.held_op), bool)"),
        ("_differ", "(left != NONE) & (right != NONE) & (right - left != 1)", "right - left != 1"),
        ("_split", "delta > 1", "delta > 2"),
        ("_split", "delta < 1", "delta < 0"),
        ("_read_groups", "full = np.flatnonzero(length > 0)", "full = np.arange(len(length))[length > 1]"),
    ),
    *mutations(
        _RULES + "cycles.py",
        _TESTS,
        (
            "write_dependencies",
            "(tables.slot_key[1:] == tables.slot_key[:-1]) & (writer[1:] != writer[:-1])",
            "writer[1:] != writer[:-1]",
        ),
        ("read_dependencies", "(writer != NONE) & (writer != tables.read_op[read])", "writer != NONE"),
        (
            "shortest_cycles",
            "np.flatnonzero(inner.wr) if need_wr else np.arange(end - start)",
            "np.arange(end - start)",
        ),
        ("circular_information_flow", "if ww_deps: ...", "if not ww_deps: ..."),
    ),
    *mutations(
        _RULES + "verdict.py",
        (("tests/anomalies/offline/test_offline_verdict.py", *_REFERENCE), _LIVES),
        (
            "Conclusion.valid",
            "self.confirmed and self.allowed >= set(self.anomalies)",
            "self.allowed >= set(self.anomalies)",
        ),
        ("Conclusion.valid", "self.confirmed and self.allowed >= set(self.anomalies)", "self.confirmed"),
        ("check", "(history.type == OK) & (history.f <= TXN)", "history.type == OK"),
        ("check", "history.f <= TXN", "history.f < TXN"),
        (
            "Options.allowed",
            'self.sub_via | ({"ww_deps"} if self.ww_deps else frozenset())',
            'frozenset() | ({"ww_deps"} if self.ww_deps else frozenset())',
        ),
        (
            "Options.allowed",
            '{"ww_deps"} if self.ww_deps else frozenset()',
            '{"ww_deps"} if not self.ww_deps else frozenset()',
        ),
        ("check", "if options.ww_deps: ...", "if True: ..."),
    ),
    *mutations(
        "canary/anomalies/policy.py",
        (("tests/anomalies/offline/test_offline_verdict.py", *_REFERENCE), _LIVES),
        ("allowed", '{"always", *options}', "options"),
        ("allowed", 'entry.allowed_with in {"always", *options}', "entry.allowed_with is not None"),
    ),
    *mutations(
        "canary/anomalies/log_anomalies.py",
        (("tests/anomalies/offline/test_offline_verdict.py", *_REFERENCE), _LIVES),
        ("", '"always"', "None"),
        (
            "",
            'allowed_with="subscribe", shows="damage", picture=(("the log", "a b c d e"), ("first poll", "a b . . ."), ("next poll", ". . !· d e"))',
            'allowed_with="ww_deps", picture=(("the log", "a b c d e"), ("first poll", "a b . . ."), ("next poll", ". . !· d e"))',
        ),
    ),
]
