"""A topic is deleted, and nobody makes it again.

Whoever deletes a topic, or loses the metadata that has it, takes everything with it that was ever acknowledged there.
Brokers answer that there is no such topic, and no client is told that there was one.

The canary says how many acknowledged probes went with its topic; then it makes the topic again, and probes on. A
deletion that was announced as planned is recorded, and rings no bell.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.operating import Announce, DeleteTopic
from canary.drills.steps.waiting import Mark, UntilAcked

DRILL = Drill(
    title="A topic is deleted",
    source="KIP-516 (topic ids); FIELD-NOTES",
    stage=Stage(cluster={"watch": {"topics": []}}),
    steps=(UntilAcked(20), DeleteTopic(), Mark(), UntilAcked(20)),
    says=(Said("promises-void", severity="critical", within_s=20),),
    echoes=frozenset({"topic-recreated"}),
    loses=True,
    control=Control(
        why="A deletion in a planned window is recorded, and rings no bell.",
        steps=(Announce("a topic is deleted"), UntilAcked(20), DeleteTopic(), Mark(), UntilAcked(20)),
        may_say=frozenset(),
        loses=True,
    ),
)
