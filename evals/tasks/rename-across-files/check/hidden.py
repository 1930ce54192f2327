import sys

sys.path.insert(0, ".")
import accounts
import dispatch
import greeting

assert accounts.find_user("ada") == "Ada Lovelace"
assert not hasattr(accounts, "usr"), "the old function is there"
assert accounts.usr_dir("ada") == "/usr/share/people/ada"
assert accounts.usr_count == 2
assert greeting.greet("ada") == "Hello, Ada Lovelace! Your files are in /usr/share/people/ada."
assert dispatch.answer("whois", "grace") == "Grace Hopper"
assert dispatch.answer("home", "ada") == "/usr/share/people/ada"
