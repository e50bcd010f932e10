"""Alerts about the API and its store, and the test of the alarm itself."""

from dashboards.boards.queries import HEARTBEAT, SERVED, gauge, increase, least, one
from dashboards.rules.rule import SEEN, SILENCE, UNWRITTEN, Rule, age
from dashboards.rules.thresholds import DELAYED_S, EXPIRES_S, PROVEN_S, SILENT_S
from storage.store.receivers import UNTOLD_S

_TESTED = gauge("canary_violations_open", 'kind="alert-test", severity="critical"')
_DRILLED = gauge("canary_violations_open", 'kind="drill", severity="critical"')
_DELAY = "min by (cluster) (" + one(f"timestamp({HEARTBEAT}) - {HEARTBEAT}") + ")"
_EXPIRY = gauge("canary_certificate_expiry_timestamp_seconds")
_API_EXPIRY = least("canary_api_certificate_expiry_timestamp_seconds")
_UNTOLD = gauge("canary_notifications_oldest_seconds")
_GIVEN_UP = increase("canary_notifications_dropped_total", window="1h")

SERVING = (
    Rule(
        name="CanaryAlertTest",
        expression=f"{_TESTED} > 0",
        severity="critical",
        summary="A test of the alarm in {{ $labels.cluster }}: nothing is wrong",
        meaning="An operator ran `canary alert test` to see whether a page arrives. This is it.",
        now="Cluster {{ $labels.cluster }}.",
        advice=("Tell the operator that it arrived, and after how long. The alert ends by itself.",),
        kind="alert-test",
        shadowed=False,
    ),
    Rule(
        name="CanaryDrill",
        expression=f"{_DRILLED} > 0",
        severity="critical",
        summary="A drill in {{ $labels.cluster }}: nothing is wrong",
        meaning="A drill of the live cluster harmed the canary's drill topic on purpose, and the canary found it: the "
        "way from Kafka to the pager works. Nothing else was touched.",
        now="Cluster {{ $labels.cluster }}.",
        advice=(
            "Nothing. The alert ends by itself when the drill is over.",
            "See what was found, and how long it took: GET /api/v1/drills.",
        ),
        kind="drill",
        shadowed=False,
    ),
    Rule(
        name="CanaryDrillOverdue",
        notify="no: it is about the way through Alertmanager",
        expression=f"{age('canary_drill_last_success_timestamp_seconds')} > {PROVEN_S}",
        hold="1h",
        summary="The alarm of {{ $labels.cluster }} was not proven for 8 days",
        meaning="No drill of this cluster was found by the canary and came back from the pager for 8 days: a "
        "silent canary may be one whose alarm does not reach you.",
        advice=(
            "Read the last drill's error: GET /api/v1/drills.",
            "Drill by hand: canary drill run duplicate --cluster NAME.",
            "If it was found and not paged: see whether the pager's receiver has the webhook /api/v1/drills/paged.",
            "See whether `canary schedule` runs: it drills at schedule.drill.",
        ),
        shadowed=False,
    ),
    Rule(
        name="CanaryApiDown",
        notify="heartbeat",
        class_="blindness",
        expression=f"absent_over_time(canary_api_store_up[{SEEN}])",
        hold="2m",
        severity="critical",
        summary="Prometheus finds no API of any canary",
        meaning="Prometheus has found no API of any canary for 3 h: none of its alarms can reach you, nor can its "
        "runbooks. Until then CanaryVanished names each cluster.",
        now="First: see whether the API's process lives, then whether Prometheus scrapes it (Status, Targets).",
        advice=("See whether the API's process lives.", "See whether Prometheus scrapes it (Status, Targets)."),
        shadowed=False,
    ),
    Rule(
        name="CanaryStoreDown",
        notify="heartbeat",
        class_="blindness",
        expression=f"max by (cluster) ({gauge(SERVED)}) == 0 or ({SILENCE} > {SILENT_S} and on (cluster) {UNWRITTEN})",
        hold="1m",
        keep="2m",
        severity="critical",
        summary="The store of the canary of {{ $labels.cluster }} does not answer, or takes no writes",
        meaning="No API replica of the cluster reaches the store, or it takes no writes and nothing of any runner "
        "arrives. Runners go on probing and remember what they find, but no alert about it can fire.",
        advice=("Bring the database back. Nothing is lost meanwhile: the runners' ledgers hold everything.",),
        shadowed=False,
    ),
    Rule(
        name="CanaryNotificationsWaiting",
        notify="heartbeat",
        class_="blindness",
        expression=f"max by (receiver) ({_UNTOLD}) > {UNTOLD_S:g} or max by (receiver) ({_GIVEN_UP}) > 0",
        hold="2m",
        severity="critical",
        summary="{{ $labels.receiver }} is not told of incidents",
        meaning="Notifications of incidents have not been taken by their receiver for minutes, or were given up after "
        "a day, or no process of the API looks for new ones. Alerts of Prometheus are not affected.",
        now="Receiver {{ $labels.receiver }}.",
        advice=(
            "Read the log of the API (`canary serve`) for not_notified: its reason says what the receiver answers.",
            "See which incidents it was not told of: GET /api/v1/incidents/{id}/notifications.",
            "See whether address and key in the settings (notify) are still right, and a way through the firewall.",
            "Try it: canary alert test.",
            "Nothing is lost meanwhile: it is tried again for a day, at least once every five minutes.",
        ),
        shadowed=False,
    ),
    Rule(
        name="CanaryStoreBehind",
        notify="heartbeat, when the store is away",
        class_="blindness",
        expression=f"({_DELAY} > {DELAYED_S} <= {SILENT_S}) or ({_DELAY} > {DELAYED_S} and on (cluster) {UNWRITTEN})",
        hold="2m",
        keep="5m",
        summary="Findings about {{ $labels.cluster }} reach the store late or not at all",
        meaning="Runners write what they know to the store once a second; it takes them much longer, or the store "
        "takes no write at all (canary_api_store_writable is 0). No alert about a loss can fire meanwhile.",
        now="What the store knows of {{ $labels.cluster }} is {{ $value | humanizeDuration }} old.",
        advice=(
            "See whether the database is locked, read-only or full: the status page says what it answers.",
            "See whether the database is slow (its disk, its locks) or far away from the runner.",
            "See whether the disk of the ledger is slow: the store gets only what the ledger holds.",
            "Read the runner's log for store_unreachable and store_back. Nothing is lost: its ledger has it.",
        ),
    ),
    Rule(
        name="CanaryCertificateExpiring",
        notify="no: when it has expired, `blind` or the heartbeat tells",
        expression=f"(({_EXPIRY} or {_API_EXPIRY}) - time()) < {EXPIRES_S}",
        hold="1h",
        summary="A certificate of the canary expires{{ with $labels.cluster }} ({{ . }}){{ end }}",
        meaning="When it has expired, the canary no longer reaches the cluster, or browsers and Prometheus no longer "
        "reach the API.",
        now="{{ with $labels.certificate }}The {{ . }} certificate{{ else }}The certificate of the API{{ end }} "
        "expires in {{ $value | humanizeDuration }}.",
        advice=(
            "Renew the file. Runners load it by themselves, the API when it is started again.",
            "The client's and the authority's are named in clusters[].kafka (ssl.*), the API's in api.tls.",
        ),
    ),
)
