"""What can be set: one model, from YAML and the environment, with safe defaults and errors that say where.

``load(path, os.environ)`` gives ``Settings`` or raises ``SettingsError``. Without a file everything has a default under
./var, and the one cluster is the embedded lab. Durations are seconds (float) once read, sizes bytes (int). Secrets are
``SecretStr``: only ``ClusterSettings.client_config()``, the four client configurations and ``store.url`` reveal them.

The runner reads settings and passes plain values (dicts for clients, numbers) to probing and watching.
"""

from canary.errors import UserError
from canary.settings.clients import admin_config, consumer_config, producer_config, transactional_config
from canary.settings.clusters import ClusterSettings, TopicSettings
from canary.settings.loading import Problem, SettingsError, load
from canary.settings.model import Settings
from canary.settings.modes import Modes, ModeSettings
from canary.settings.showing import redacted, redacted_url, secrets_of

__all__ = [
    "ClusterSettings",
    "ModeSettings",
    "Modes",
    "Problem",
    "Settings",
    "SettingsError",
    "TopicSettings",
    "UserError",
    "admin_config",
    "consumer_config",
    "load",
    "producer_config",
    "redacted",
    "redacted_url",
    "secrets_of",
    "transactional_config",
]
