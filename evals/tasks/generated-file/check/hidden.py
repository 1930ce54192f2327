import sys

sys.path.insert(0, ".")
import client


def call(method, path, **arguments):
    return method, path, arguments


assert client.delete_user(call, 3) == ("DELETE", "/users/delete", {"id": 3})
assert client.delete_user.__doc__ == "Delete a user."
assert client.list_users(call, 2) == ("GET", "/users", {"page": 2})
