"""Stands in for the environment server: answers /health and writes down what it can see."""

import json
import os

import uvicorn

if __name__ == "__main__":
    with open("seen-by-env.json", "w") as file:
        json.dump(dict(os.environ), file)
    uvicorn.serve()
