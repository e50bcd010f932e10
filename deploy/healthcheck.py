# ruff: noqa: INP001  # a script of the image, not a package
"""Exit status 0 if the API of this container answers /healthz, with TLS or without.

The process answers; whether it is of use (store and runners) is what /readyz says.
"""

import os
import ssl
import sys
from urllib.error import URLError
from urllib.request import urlopen


def answers(scheme: str) -> bool:
    """Whether it answers by this scheme. Its certificate is not looked at: this asks the process beside us."""
    url = f"{scheme}://127.0.0.1:{os.environ.get('CANARY_API__PORT', '8080')}/healthz"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if scheme == "https" else None
    if context is not None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urlopen(url, timeout=2, context=context) as answer:  # noqa: S310
            return answer.status == 200
    except (URLError, OSError):
        return False


sys.exit(0 if any(map(answers, ("http", "https"))) else 1)
