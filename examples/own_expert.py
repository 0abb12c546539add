"""A script that answers asks as an expert: it takes what it knows by heart and leaves the rest to people and models.

AWMWEB_URL=http://127.0.0.1:8000 AWMWEB_TOKEN=<token of scope expert> .venv/bin/python examples/own_expert.py
"""

import os
import time
import uuid

import httpx

KNOWN = {"coffee": "Twelve, the shelf holds no more.", "holiday": "Not before Monday: the warehouse is closed."}
ANSWERS = int(os.environ.get("AWMWEB_ANSWERS", "0"))  # stop after this many; 0: never


def advice_for(question: str) -> str:
    return next((text for word, text in KNOWN.items() if word in question.lower()), "")


def answer(desk: httpx.Client, ask: str, text: str) -> bool:
    claimed = desk.post(f"/asks/{ask}/claim", json={})
    if claimed.is_error:
        return False  # another expert claimed it first, or it is closed
    lease = claimed.json()
    body = {"lease_token": lease["lease_token"], "text": text, "nonce": uuid.uuid4().hex}
    return desk.post(f"/assignments/{lease['assignment']}/answer", json=body).is_success


def main() -> None:
    token = {"Authorization": f"Bearer {os.environ['AWMWEB_TOKEN']}"}
    given = 0
    with httpx.Client(base_url=f"{os.environ['AWMWEB_URL']}/api/v1", headers=token) as desk:
        while not ANSWERS or given < ANSWERS:
            for ask in desk.get("/asks", params={"status": "open"}).raise_for_status().json()["asks"]:
                text = advice_for(ask["question"])
                if text and ask["tier"] in ("people", "senior") and not ask.get("held_by"):
                    given += answer(desk, ask["id"], text)
                    print(f"{ask['id']}: {text}", flush=True)
            time.sleep(1)


main()
