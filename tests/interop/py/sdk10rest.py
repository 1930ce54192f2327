"""a2a-sdk 1.x over the HTTP+JSON binding, behind the few calls that flow.py makes."""

import sdk10
from check import TOKEN
from sdk10 import CAN_SAY_LAST_EVENT, VERSION, check_signature  # noqa: F401


async def connect(base, token=TOKEN):
    return await sdk10.connect(base, token, supported_protocol_bindings=['HTTP+JSON'])
