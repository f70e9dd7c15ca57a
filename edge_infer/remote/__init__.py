"""Commands that come over MQTT: the rules that each must pass, and one file a verb."""
