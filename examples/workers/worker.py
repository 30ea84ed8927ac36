#!/usr/bin/env python3
"""A worker for a queue, with nothing but Python's standard library.

    worker.py QUEUE

Write your work into handle(). An exception fails the attempt, Permanent for good.
"""
import json, os, socket, sys, threading, time, urllib.error, urllib.parse, urllib.request

SERVER = os.environ.get("ORRERY_SERVER", "http://127.0.0.1:7460")
HOLDER = os.environ.get("ORRERY_HOLDER", f"{socket.gethostname()}-{os.getpid()}")
BEAT = float(os.environ.get("WORKER_BEAT_SECONDS", "10"))  # less than half of the queue's visibility timeout
SCOPE = {k: os.environ[v] for k, v in (("namespace", "ORRERY_NAMESPACE"), ("tenant", "ORRERY_TENANT")) if v in os.environ}


class Permanent(Exception):
    """Trying again is pointless."""


def handle(data):
    """Do the work on one item; what is returned becomes its result."""
    if not isinstance(data, dict):
        raise Permanent("the data is not an object")
    time.sleep(data.get("seconds", 0))
    if "error" in data:
        raise RuntimeError(data["error"])
    return {"by": HOLDER, "echo": data}


def call(path, **body):
    url = f"{SERVER}/v1/queues/{path}?{urllib.parse.urlencode(SCOPE)}"
    headers = {"Content-Type": "application/json"}
    if "ORRERY_TOKEN" in os.environ:
        headers["Authorization"] = "Bearer " + os.environ["ORRERY_TOKEN"]
    request = urllib.request.Request(url, json.dumps({"holder": HOLDER, **body}).encode(), headers)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.loads(answer.read() or b"null")


def say(path, **body):
    """Say what came of an item, again and again while no daemon answers."""
    while True:
        try:
            return call(path, **body)
        except urllib.error.HTTPError as no:
            if no.code < 500:
                raise
        except OSError as error:
            print("worker:", error, file=sys.stderr)
        time.sleep(1)


def work(queue, item):
    about, attempt, done = f"{queue}/items/{item['id']}", item["attempts"], threading.Event()

    def heartbeat():
        while not done.wait(BEAT):
            try:
                call(about + "/heartbeat", attempt=attempt)
            except OSError as lost:  # the answer at the end will tell, too
                print("heartbeat:", lost, file=sys.stderr)

    threading.Thread(target=heartbeat, daemon=True).start()
    try:
        result = handle(item["data"])
        json.dumps(result)  # what is no JSON fails here
    except Exception as error:
        done.set()
        say(about + "/fail", attempt=attempt, error=str(error), permanent=isinstance(error, Permanent))
    else:
        done.set()
        say(about + "/complete", attempt=attempt, result=result)


def main():
    queue = urllib.parse.quote(sys.argv[1], safe="")
    while True:
        try:
            for item in call(queue + "/take", wait_seconds=60)["items"]:
                work(queue, item)
        except OSError as error:  # no daemon, no queue yet, or the item is not ours any more
            print("worker:", error, file=sys.stderr)
            time.sleep(1)


if __name__ == "__main__":
    main()
