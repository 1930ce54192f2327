"""a2a-sdk 1.x over the HTTP+JSON binding, behind the few calls that flow.py makes."""

from a2a.client import ClientConfig, create_client
from sdk10 import CAN_SAY_LAST_EVENT, VERSION, Client, check_signature  # noqa: F401


async def connect(base):
    return Client(await create_client(base, ClientConfig(supported_protocol_bindings=['HTTP+JSON'])))
