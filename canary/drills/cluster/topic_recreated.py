"""A topic is deleted and made again.

Somebody deletes a topic, and somebody or something makes it again with the same name. No client is told: a producer
that was kept is acknowledged at once, and a consumer that stood at 100 goes on at the new 100. Everything that was
acknowledged before is gone, and nobody lost it: it was thrown away.

The canary says that the topic is another one, with the number of promises that are void, and probes on.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.operating import Configure, DeleteTopic, MakeTopic
from canary.drills.steps.waiting import Mark, UntilAcked

DRILL = Drill(
    title="A topic is deleted and made again",
    source="KIP-516 (topic ids); FIELD-NOTES",
    stage=Stage(cluster={"watch": {"topics": []}}),
    steps=(UntilAcked(20), DeleteTopic(), MakeTopic(), UntilAcked(20)),
    says=(Said("topic-recreated", severity="critical"),),
    echoes=frozenset(),
    loses=True,
    control=Control(
        why="A topic whose settings are changed is the same topic.",
        steps=(UntilAcked(20), Configure({"retention.ms": "86400000"}), Mark(), UntilAcked(60)),
        may_say=frozenset(),
    ),
)
