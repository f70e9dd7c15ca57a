"""Delivery over MQTT: the only room that imports paho."""
