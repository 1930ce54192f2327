"""The worker, which moves files to the storage."""

from uploads import settings


def main():
    storage = settings.load()["storage"]
    print(f"waiting {storage['timeout_seconds']} seconds for {storage['url']}")


if __name__ == "__main__":
    main()
